r"""A grid functional (dftfd.functionals.grid_functionals) on the channels of the density, on a whole grid.

With features x_b of the blocks b,  E = sum_b e(x_b, G),  G = sum_b g(x_b),  so

    dE/dx_b = de/dx(x_b, G) + D . dg/dx(x_b),   D = sum_b de/dG(x_b, G),

and the response is the derivative of these two passes along a change of the density. Blocks are of one size, filled up
with points of weight zero, so that one compiled program serves all grids of molecules of as many atoms. Without blocks
all points are one, and programs are compiled for their number, rounded up.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import DftfdError, FunctionalError, NumericalError, one_line
from dftfd.functionals.grid_functionals import SAME, GridFunctionalTerm, is_number, refused
from dftfd.grids.molecular import round_up
from dftfd.runtime.array_types import DensityOnGrid, Points, Weights
from dftfd.runtime.threads import run_on_workers, split_evenly, worker_count
from dftfd.xc.channels import GRADIENT, ROW, TAU, both_spins, channel_count
from dftfd.xc.code import jets_along
from dftfd.xc.kernel import Slopes, SlopesAlong
from dftfd.xc.matrix import require_finite_response

BLOCK = 1024
"""Points of a block."""


class GridFunctionalKernel:
    """kernel(points, weights, density) -> (energy, potential) of a grid functional for a grid; see dftfd.xc.kernel.

    functional: the grid functional alone, with its coefficient.   nuclei: (atom, 3) [bohr].   charges: (atom,).
    owner: number of the atom of each point in the order of the grid, or None where points belong to none.
    """

    whole_grid = True

    def __init__(self, functional, n_spin: int, nuclei, charges, owner=None):
        ((self._coefficient, self.term),) = functional.terms
        self.functional, self.n_spin = functional, n_spin
        self.order, self.needs_tau = self.term.order, self.term.needs_tau
        self.channels = channel_count(self.order, self.needs_tau)
        self._nuclei, self._charges, self._owner = jnp.asarray(nuclei), jnp.asarray(charges, float), owner
        require_unchanged(self.term)
        self._asked_again = False
        self._code = code_of(self.term)
        leaves = jax.tree_util.tree_leaves(dict(self.term.parameters))
        self._numbers = [leaf for leaf in leaves if is_number(leaf)]

    def __call__(self, points: Points, weights: Weights, density: DensityOnGrid) -> tuple[float, DensityOnGrid]:
        energy, slopes = self._evaluate(points, weights, density)
        return energy, slopes.density

    def slopes(self, points: Points, weights: Weights, density: DensityOnGrid) -> Slopes:
        """All first derivatives of the energy, those by the nuclei's positions included."""
        return self._evaluate(points, weights, density)[1]

    def _evaluate(self, points, weights, density):
        blocks = self._blocks(points, weights, density)
        gathered = self._gathered(blocks)
        found = self._slopes_of(blocks, gathered)
        energy = float(self._coefficient * sum(float(e) for e, _ in found))
        parts, by_nuclei = [by for _, (by, _, _) in found], _sum([by for _, (_, by, _) in found])
        if gathered is not None:
            D = _sum([by for _, (_, _, by) in found])
            pulled = self._each(lambda b: self._code.pull(self._numbers, *b, self._nuclei, self._charges, D), blocks)
            parts = [jax.tree_util.tree_map(jnp.add, a, b) for a, (b, _) in zip(parts, pulled, strict=True)]
            by_nuclei = by_nuclei + _sum([by for _, by in pulled])
        joined = lambda name: self._coefficient * _joined([p[name] for p in parts], len(weights))
        by_nuclei = self._coefficient * np.asarray(by_nuclei)
        slopes = Slopes(joined("weights"), joined("density"), joined("points"), by_nuclei)
        self._require_finite(energy, slopes)
        self._require_repeatable(blocks[:1], found[:1], gathered)
        return energy, slopes

    def _slopes_of(self, blocks, gathered) -> list:
        """(energy, its derivatives by x, by the nuclei and by G) of each block."""
        return self._each(lambda b: self._code.slopes(self._numbers, *b, self._nuclei, self._charges, gathered), blocks)

    def _require_repeatable(self, first, found, gathered):
        """FunctionalError unless the first block, asked again once in a calculation, gives the same."""
        if self._asked_again:
            return
        self._asked_again = True
        gather = () if gathered is None else ([self._gathered(first), self._gathered(first)],)
        for before, now in ((found, self._slopes_of(first, gathered)), *gather):
            pairs = zip(*map(jax.tree_util.tree_leaves, (before, now)), strict=True)
            if not all(np.abs(a - b).max(initial=0.0) <= SAME * np.abs(a).max(initial=0.0) for a, b in pairs):
                raise FunctionalError(
                    f"grid functional {self.term.name!r} gave different values for the same points of this molecule: "
                    "it uses random numbers or a hidden state; the energy must depend on its arguments alone."
                )

    def changes(self, points, weights, density):
        """change(tangent (spin, channel, point)) -> change of the potential, alike, at one density."""
        blocks, code = self._blocks(points, weights, density), self._code
        gathered, D, atoms = self._gathered(blocks), None, (self._nuclei, self._charges)
        if gathered is not None:
            D = _sum(self._each(lambda b: code.slopes(self._numbers, *b, *atoms, gathered)[1][2], blocks))

        def change(tangent):
            changes = [x["density"] for x, _ in self._blocks(points, weights, tangent)]
            pairs, d_gathered = [(*b, d) for b, d in zip(blocks, changes, strict=True)], None
            if gathered is not None:
                d_gathered = _sum(self._each(lambda b: code.d_gather(self._numbers, *b[:2], *atoms, b[2]), pairs))
            both = self._each(lambda b: code.d_slopes(self._numbers, *b[:2], *atoms, gathered, b[2], d_gathered), pairs)
            parts = [d for d, _ in both]
            if gathered is not None:
                dD = _sum([d for _, d in both])
                more = self._each(lambda b: code.d_pull(self._numbers, *b[:2], *atoms, D, b[2], dD), pairs)
                parts = [a + b for a, b in zip(parts, more, strict=True)]
            changed = self._coefficient * _joined(parts, len(weights))
            require_finite_response(self, changed)
            return changed

        return change

    def second_slopes(
        self, points: Points, weights: Weights, density: DensityOnGrid, first: DensityOnGrid, second: DensityOnGrid
    ) -> SlopesAlong:
        """The slopes along density + e first + e^2/2 second."""
        blocks, code, atoms = self._blocks(points, weights, density), self._code, (self._nuclei, self._charges)
        changes = ([x["density"] for x, _ in self._blocks(points, weights, change)] for change in (first, second))
        given = [(*block, *of_block) for block, *of_block in zip(blocks, *changes, strict=True)]
        gathered = (None,) * 3
        if self.term.gather is not None:
            gathered = _sum(self._each(lambda b: code.gather_along(self._numbers, *atoms, *b), given))
        found = self._each(lambda b: code.slopes_along(self._numbers, *atoms, *b, *gathered), given)
        slopes = [tuple(order[:2] for order in of_block) for of_block in found]  # by x and by the nuclei
        if self.term.gather is not None:
            D = _sum([tuple(order[2] for order in of_block) for of_block in found])
            pulled = self._each(lambda b: code.pull_along(self._numbers, *atoms, *b, *D), given)
            slopes = [_sum(pair) for pair in zip(slopes, pulled, strict=True)]
        joined = lambda name, order: self._coefficient * _joined([of[order][0][name] for of in slopes], len(weights))
        by_nuclei = self._coefficient * np.asarray(_sum([of[2][1] for of in slopes]))
        whole = Slopes(joined("weights", 2), joined("density", 2), joined("points", 2), by_nuclei)
        return SlopesAlong(joined("density", 0), joined("density", 1), whole).finite(self.functional.name)

    def _gathered(self, blocks):
        if self.term.gather is None:
            return None
        return _sum(self._each(lambda b: self._code.gather(self._numbers, *b, self._nuclei, self._charges), blocks))

    def _blocks(self, points, weights, density) -> list[tuple[dict[str, np.ndarray], np.ndarray]]:
        """(what the energy is differentiated by, owners) of each block, the last filled up at weight zero."""
        n = len(weights)
        size = BLOCK if self.term.by_blocks else round_up(n)
        owner = np.zeros(n, np.int32) if self._owner is None else np.asarray(self._owner, np.int32)
        edge: Any = "edge"
        filled = lambda x, mode=edge: np.pad(x, [(0, 0)] * (np.ndim(x) - 1) + [(0, -n % size)], mode=mode)
        x = {"density": filled(density), "points": filled(np.asarray(points).T), "weights": filled(weights, "constant")}
        owner = filled(owner)
        cuts = [slice(start, start + size) for start in range(0, n, size)]
        return [({name: values[..., cut] for name, values in x.items()}, owner[cut]) for cut in cuts]

    def _each(self, code, blocks) -> list:
        """code(block) of each block, in their order, by the workers; FunctionalError for what JAX cannot derive."""
        parts = split_evenly([1.0] * len(blocks), min(worker_count(), len(blocks)))
        of_part = lambda part: [(k, jax.block_until_ready(code(blocks[k]))) for k in part]
        try:
            found = run_on_workers([functools.partial(of_part, part) for part in parts])
        except DftfdError:
            raise
        except (TypeError, ValueError, NotImplementedError) as error:
            raise refused(self.term, f"cannot be derived by JAX: {one_line(str(error), 120)}") from error
        return [result for _, result in sorted((pair for part in found for pair in part), key=lambda pair: pair[0])]

    def _require_finite(self, energy, slopes):
        for what, values in (("energies", energy), ("derivatives", slopes.density), ("derivatives", slopes.nuclei)):
            if not np.isfinite(values).all():
                count = np.size(values) - np.count_nonzero(np.isfinite(values))
                raise NumericalError(
                    f"grid functional {self.term.name!r}: {count} of {np.size(values)} {what} of this molecule are NaN "
                    "or Inf; look at logarithms and powers of densities that vanish far from the nuclei."
                )


def require_unchanged(term: GridFunctionalTerm) -> None:
    """FunctionalError where the grid functional has become another: what is compiled would hide it."""
    known = vars(term)
    if "_trial" not in known:
        known["_trial"] = term.trial_energy()
    term.require_unchanged(known["_trial"])


def _sum(values):
    """Sum of equal pytrees, in order."""
    return functools.reduce(lambda a, b: jax.tree_util.tree_map(jnp.add, a, b), values)


def _joined(parts, n):
    return np.concatenate([np.asarray(part) for part in parts], axis=-1)[..., :n]


def code_of(term: GridFunctionalTerm) -> "GridFunctionalCode":
    known = vars(term)
    if "_code" not in known:
        known["_code"] = GridFunctionalCode(term)
    return known["_code"]


class GridFunctionalCode:
    """A grid functional's energy of a block and its derivatives by JAX, compiled when they are first asked for.

    numbers: the floats and arrays among the parameters.   x: density (spin, channel, point), points (3, point), weights
    (point,) of a block.   owner: (point,).   gathered, D: G and dE/dG of the module's head.
    """

    def __init__(self, term: GridFunctionalTerm):
        leaves, self._structure = jax.tree_util.tree_flatten(dict(term.parameters))
        self._fixed = [None if is_number(leaf) else leaf for leaf in leaves]
        self._term = term
        self.slopes = jax.jit(jax.value_and_grad(self._energy, argnums=(1, 3, 5)))
        self.gather, self.pull = jax.jit(self._gather), jax.jit(self._pull)
        self.d_gather, self.d_slopes = jax.jit(self._d_gather), jax.jit(self._d_slopes)
        self.d_pull, self.gather_along = jax.jit(self._d_pull), jax.jit(self._gather_along)
        self.slopes_along, self.pull_along = jax.jit(self._slopes_along), jax.jit(self._pull_along)

    def _energy(self, numbers, x, owner, nuclei, charges, gathered):
        return self._term.energy(_features(x, owner, nuclei, charges), self._parameters(numbers), gathered)

    def _gather(self, numbers, x, owner, nuclei, charges):
        return self._term.gathering(_features(x, owner, nuclei, charges), self._parameters(numbers))

    def _pull(self, numbers, x, owner, nuclei, charges, D):
        """D . dG by x and by the nuclei."""
        return jax.vjp(lambda x, nuclei: self._gather(numbers, x, owner, nuclei, charges), x, nuclei)[1](D)

    def _d_gather(self, numbers, x, owner, nuclei, charges, d_density):
        of = lambda density: self._gather(numbers, x | {"density": density}, owner, nuclei, charges)
        return jax.jvp(of, (x["density"],), (d_density,))[1]

    def _d_slopes(self, numbers, x, owner, nuclei, charges, gathered, d_density, d_gathered):
        """Changes of de/d(density) and de/dG."""

        def of(density, gathered):
            energy = lambda n, G: self._energy(numbers, x | {"density": n}, owner, nuclei, charges, G)
            return jax.grad(energy, argnums=(0, 1))(density, gathered)

        return jax.jvp(of, (x["density"], gathered), (d_density, d_gathered))[1]

    def _d_pull(self, numbers, x, owner, nuclei, charges, D, d_density, dD):
        """Change of D . dG/d(density)."""

        def of(density, D):
            gather = lambda n: self._gather(numbers, x | {"density": n}, owner, nuclei, charges)
            return jax.vjp(gather, density)[1](D)[0]

        return jax.jvp(of, (x["density"], D), (d_density, dD))[1]

    # along density + e first + e^2/2 second: values and their first two derivatives by e, at e = 0

    def _gather_along(self, numbers, nuclei, charges, x, owner, first, second):
        gather = lambda n: self._gather(numbers, x | {"density": n}, owner, nuclei, charges)
        return jets_along(gather, x["density"], first, second)

    def _slopes_along(self, numbers, nuclei, charges, x, owner, first, second, gathered, d_gathered, dd_gathered):
        def of(moving):
            density, gathered = moving
            slopes = jax.grad(self._energy, argnums=(1, 3, 5))
            return slopes(numbers, x | {"density": density}, owner, nuclei, charges, gathered)

        return jets_along(of, (x["density"], gathered), (first, d_gathered), (second, dd_gathered))

    def _pull_along(self, numbers, nuclei, charges, x, owner, first, second, D, dD, ddD):
        def of(moving):
            density, D = moving
            return self._pull(numbers, x | {"density": density}, owner, nuclei, charges, D)

        return jets_along(of, (x["density"], D), (first, dD), (second, ddD))

    def _parameters(self, numbers):
        operands = iter(numbers)
        leaves = [next(operands) if leaf is None else leaf for leaf in self._fixed]
        return jax.tree_util.tree_unflatten(self._structure, leaves)


def _features(x, owner, nuclei, charges) -> dict[str, Any]:
    """What a grid functional may take, by name."""
    density, n = both_spins(x["density"]), x["density"].shape[1]
    found = {"rho": density[:, 0], "tau": density[:, TAU], "points": x["points"].T, "weights": x["weights"]}
    if n >= GRADIENT.stop:
        found["grad_rho"] = density[:, GRADIENT]
    if n > ROW.max():
        found["hess_rho"] = density[:, ROW]
    return found | {"nuclei": nuclei, "charges": charges, "owner": owner}
