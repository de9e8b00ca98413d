"""DM21, a network that mixes local, exact and long-range exact exchange point by point; its weights are the user's.

The four functionals of the paper differ by their weights alone, which its authors distribute with their own program:
checkpoints of TensorFlow, of which the file of numbers is read here and nothing is executed. Networks of features at a
point are ordinary formulas: energy, matrix, forces and response are derived as everywhere.

J. Kirkpatrick et al., Science 374, 1385 (2021). doi:10.1126/science.abj6511; weights and program (CC BY 4.0 and
Apache 2.0): https://github.com/google-deepmind/deepmind-research
"""

import functools
import importlib.util
import itertools
import math
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import compose
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.errors import FileError, MissingDependencyError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.common import gradient_squared, per_spin, slater_exchange
from dftfd.functionals.registry import functional, on_request
from dftfd.runtime.arguments import choice, public
from dftfd.runtime.files import read_bytes

KINDS = ("DM21", "DM21m", "DM21mc", "DM21mu")
"""By what they were fitted to: molecules with fractional charges and spins, molecules (m), with fractional charges (c),
with the uniform gas (u)."""

PACKAGE = "density_functional_approximation_dm21"
NUMBERS = "variables/variables.data-00000-of-00001"

FEATURES, WIDTH, BLOCKS, SHARES = 11, 256, 6, 3
BLOCK = ((WIDTH,), (WIDTH,), (WIDTH,), (WIDTH, WIDTH))
"""Shift, scale, bias and weights of each block."""
ENDS = ((SHARES,), (WIDTH, SHARES), (WIDTH,), (FEATURES, WIDTH))
"""Bias and weights of the shares, and of the features; in the file they follow the blocks."""
SIZE = sum(map(math.prod, BLOCK * BLOCKS + ENDS))

SQUASH, NORM = 1e-4 + 1e-9, 1e-5
"""What is added to features before their logarithm, and to variances of a layer."""


@public
def dm21(kind: Annotated[str, choice(*KINDS)] = "DM21", checkpoints: Path | None = None) -> Functional:
    """DM21, DM21m, DM21mc or DM21mu, exchange and correlation, registered in lower case.

    checkpoints: folder of the authors' program with the weights, one folder for each kind. None: that of the installed
    program, for which the names 'dm21', 'dm21m', 'dm21mc', 'dm21mu' work without this call.

    The paper's D3(BJ) dispersion is not included. The network is not symmetric in the spins: exchanging them changes
    the energy of triplet carbon by 1e-4 hartree.

    Raises InputError for other kinds, MissingDependencyError if the program is not installed, FileError if the weights
    cannot be read.
    """
    return _made(kind, _folder(checkpoints) / kind / NUMBERS)


for _kind in KINDS:
    on_request(_kind.lower())(functools.partial(dm21, _kind))


@functools.lru_cache(maxsize=len(KINDS))
def _made(kind: str, path: Path) -> Functional:
    network = _read(path)

    def energy(rho, tau, e_x, e_x_lr, *, omega=0.4, network=network):
        return _energy_density(rho, tau, e_x, e_x_lr, network)

    energy.__doc__ = f"{kind}, see dftfd.functionals.dm21."
    return functional(kind.lower(), doi="10.1126/science.abj6511", spin_symmetric=False)(energy)


def _folder(checkpoints) -> Path:
    if checkpoints is not None:
        return checkpoints
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            f"DM21's weights come with its authors' program, {PACKAGE}, which is not installed; give the folder "
            "checkpoints of a copy of it, dftfd.dm21(checkpoints=...)."
        )
    return Path(found.submodule_search_locations[0]) / "checkpoints"


def _read(path: Path) -> np.ndarray:
    """The weights (SIZE,), in the order of TensorFlow's variables by their names: `BLOCK` six times, `ENDS`."""
    raw = read_bytes(path, 4 * SIZE)
    if len(raw) != 4 * SIZE:
        raise FileError(f"{path} has {len(raw)} bytes; {4 * SIZE} expected, the {SIZE} weights of DM21.")
    found = np.frombuffer(raw, "<f4").astype(np.float64)
    if not np.isfinite(found).all():
        raise FileError(f"{path} holds numbers that are not finite; the weights of DM21 expected.")
    return found


def _energy_density(rho, tau, e_x, e_x_lr, network):
    """e = f_1 e_x^Slater + f_2 e_x + f_3 e_x^lr, summed over spins, with the network's shares f of features at r."""
    a, b = rho[0], rho[1]
    squares = (gradient_squared(a + b), gradient_squared(a), gradient_squared(b))
    exact = (e_x[0], e_x_lr[0], e_x[1], e_x_lr[1])
    f = compose(functools.partial(shares, network), a, b, *squares, tau[0], tau[1], *exact)
    local = per_spin(lambda n: 2 ** (1 / 3) * slater_exchange(n), rho)  # half of that of the density 2 n
    return f[0] * local + f[1] * (e_x[0] + e_x[1]) + f[2] * (e_x_lr[0] + e_x_lr[1])


def shares(network, *features):
    """The network (R^11 -> R^3), one operation, as is its derivative."""
    if is_tracer(network):
        raise UnsupportedError(
            "DM21's weights are constants of compiled code, without derivatives; load others with "
            "dftfd.dm21(checkpoints=...)."
        )
    return _as_one(functools.partial(_layers, _parts(network)))(jnp.stack(features))


def _as_one(code):
    """Code of an array with a derivative by its Jacobian matrix, both as loops of one turn.

    Code of points is taken apart into scalars, loops are not: products of matrices stay what they are.
    """
    whole = jax.custom_jvp(functools.partial(_looped, code))
    whole.defjvp(lambda at, along: (whole(*at), _looped(jax.jacrev(code), *at) @ along[0]))
    return whole


def _looped(code, x):
    """x is what the loop runs over: JAX takes what is the same in all turns out of it."""
    return jax.lax.scan(lambda nothing, one: (nothing, code(one)), None, x[None])[1][0]


def _layers(parts, features):
    """Logarithms, a layer, six residual layers with norms, and 2 / (1 + exp(-x/2))."""
    blocks, (last_bias, last, first_bias, first) = parts
    h = jnp.tanh(jnp.log(jnp.abs(features) + SQUASH) @ first + first_bias)
    h, _ = jax.lax.scan(_block, h, blocks)
    return 2.0 * jax.nn.sigmoid((h @ last + last_bias) / 2.0)


def _block(h, block):
    shift, scale, bias, weights = block
    h = h + h @ weights + bias
    h = h - h.mean()
    return jax.nn.elu(scale * h / jnp.sqrt((h * h).mean() + NORM) + shift), None


def _parts(network):
    """Arrays of the blocks, one behind the other, and of the ends."""
    size = sum(map(math.prod, ENDS))
    blocks, ends = network[:-size].reshape(BLOCKS, -1), network[-size:]
    return _split(blocks, BLOCK), _split(ends, ENDS)


def _split(values, shapes):
    """Arrays of these shapes, which stand one behind the other in the last axis."""
    stops = list(itertools.accumulate(map(math.prod, shapes), initial=0))
    cuts = zip(stops, stops[1:], shapes, strict=False)
    return tuple(values[..., a:b].reshape(*values.shape[:-1], *shape) for a, b, shape in cuts)
