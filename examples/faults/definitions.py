"""Definitions of functionals from a generator that knows which are sound: the sound are taken, the broken refused.

    python examples/faults/definitions.py --save        2,000 definitions, every other one broken

What is taken has to be the derivative of its energy: with the density matrix on a path P(t) of orbitals,
tr(V dP/dt) is compared with a central difference of the energy (Richardson, fourth order). V and energy are what the
functional adds to those of the self-consistent field, exact exchange included, on 90 points of the grid of OH; the
identity holds for any quadrature.
"""

import functools
import sys
import time

import jax
import numpy as np
from broken_definitions import broken_definition
from common import report
from sound_definitions import sound_definition

import dftfd
from dftfd.errors import DftfdError
from dftfd.functionals.base import exact_exchange, long_range_exchange
from dftfd.functionals.registry import functional, register
from dftfd.terms import CoulombExchangeEnergy
from dftfd.terms.integrals import ExactCoulombExchange
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

TOLERANCE = 1e-7
HANGS = 30.0  # seconds of CPU
STEP = 2e-3
OCCUPIED = {1: (4,), 2: (5, 4)}
"""Orbitals that are occupied, of one density matrix for both spins, and of two."""


@functools.cache
def surroundings():
    """(orbitals, J and K, AO store) of OH, which all definitions share."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0 0.97", basis="sto-3g", spin=1)
    orbitals = dftfd.run_scf(molecule, xc="lda,vwn", grid_level=0).mo_coeff[0]
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 0)
    points, weights = np.asarray(grid.points)[::19], np.asarray(grid.weights)[::19]
    return orbitals, ExactCoulombExchange(molecule), AOStore(molecule, points, weights, order=2)


def used(own, rng):
    """A functional itself, or as users take it: with another parameter, in a sum, a hybrid, a range-separated one."""
    share = float(rng.uniform(0.1, 0.5))
    return {
        0: lambda: own,
        1: lambda: own.with_parameters(a=share),
        2: lambda: register((1 - share) * own + share * dftfd.get_functional("lda_x"), f"{own.name}_mixed"),
        3: lambda: dftfd.get_functional(f"{share:.3f}*HF + {1 - share:.3f}*{own.name}"),
        4: lambda: own + share * exact_exchange - 0.2 * long_range_exchange(share),
    }[int(rng.integers(5))]()


def identity_error(f, n_spin, rng):
    """Relative difference of tr(V dP) and the slope of the energy along random changes of the orbitals."""
    orbitals, coulomb_exchange, store = surroundings()
    xc, exchange = XCBuilder(XCKernel(f, n_spin), store), CoulombExchangeEnergy(coulomb_exchange, f.exact_exchange)
    C = [orbitals[:, :n] + 0.1 * rng.normal(size=(len(orbitals), n)) for n in OCCUPIED[n_spin]]
    change = [rng.normal(size=c.shape) for c in C]
    matrix = lambda t: (3 - n_spin) * np.stack([(c + t * d) @ (c + t * d).T for c, d in zip(C, change, strict=True)])

    def energy(t):
        P = matrix(t)
        return xc.build(P).energy + exchange.evaluate(P).energies.get("exact_exchange", 0.0)

    half, whole = ((energy(h) - energy(-h)) / (2 * h) for h in (STEP / 2, STEP))
    P, dP = matrix(0.0), (matrix(1.0) - matrix(-1.0)) / 2
    V = xc.build(P).matrix + sum(exchange.evaluate(P).matrices.values()) - coulomb_exchange.coulomb(P)
    slope = float(np.sum(V * dP))
    return abs(slope - (4 * half - whole) / 3) / max(abs(slope), abs(energy(0.0)))


def sound(name, rng, figures):
    """A sound definition: registered, used, its derivative compared."""
    definition = sound_definition(rng)
    try:
        own = functional(name)(definition.formula)
    except DftfdError as error:
        return f"refused: {definition.text}: {error}"
    figures["sound ones accepted"] += 1
    try:
        f = used(own, rng)
        error = identity_error(f, int(rng.integers(1, 3)), rng)
    except Exception as error:
        return f"{type(error).__name__} in use: {definition.text}: {error}"
    figures["largest error of the identity"] = max(figures["largest error of the identity"], error)
    figures["identity holds"] += error < TOLERANCE
    return None if error < TOLERANCE else f"identity off by {error:.1e}: {definition.text} as {f.name}"


def broken(name, rng, figures):
    """A broken definition: refused with a typed error of one line."""
    text, attempt = broken_definition(rng)
    figures["kinds of breaks"].add(text)
    try:
        attempt(name)
    except DftfdError as error:
        refused = bool(str(error)) and "\n" not in str(error)
        figures["broken ones refused"] += refused
        return None if refused else f"not one line: {text}: {error}"
    except Exception as error:
        return f"{type(error).__name__} instead of a typed error: {text}"
    return f"accepted: {text}"


def definitions(runs, folder, rng):
    """Figures of `runs` definitions, or of those before Ctrl-C; what went wrong is told on standard error."""
    seed, tried, slowest, failures = int(rng.integers(2**32)), [0, 0], 0.0, 0
    figures = {"sound ones accepted": 0, "identity holds": 0, "largest error of the identity": 0.0}
    figures |= {"broken ones refused": 0, "kinds of breaks": set()}
    for k in range(runs):
        start = time.process_time()
        try:
            failure = (broken if k % 2 else sound)(f"t_{seed}_{k}", np.random.default_rng([seed, k]), figures)
        except KeyboardInterrupt:
            break
        tried[k % 2] += 1
        slowest = max(slowest, time.process_time() - start)
        if failure:
            failures += 1
            print(f"definition {k}: {failure}", file=sys.stderr, flush=True)
        if k % 100 == 99:
            print(f"{k + 1} of {runs}, {failures} failures", file=sys.stderr, flush=True)
            jax.clear_caches()
    return {
        "sound ones": tried[0],
        "broken ones": tried[1],
        **figures,
        "kinds of breaks": len(figures["kinds of breaks"]),
        "slowest [s of CPU]": round(slowest, 2),
        "over 30 s": int(slowest > HANGS),
    }


if __name__ == "__main__":
    jax.config.update("jax_enable_compilation_cache", False)  # nobody needs these programs again
    report("definitions", definitions, 2000)
