"""The quadrature grid of a molecule: atomic grids that move with the nuclei, weighted by the share of their atom."""

import inspect
import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError, ResourceError
from dftfd.grids.atomic import (
    HEAVIEST_ELEMENT,
    N_LEVELS,
    PRUNING_SCHEMES,
    RADIAL_SCHEMES,
    AtomicGrid,
    atomic_grid,
    level_size,
)
from dftfd.grids.partition import (
    PARTITION_SCHEMES,
    RADIUS_ADJUSTMENTS,
    cells,
    owner_share,
    pull_share_back,
    share_slopes,
)
from dftfd.runtime.arguments import choice, each, public, traceable, whole
from dftfd.runtime.memory import in_bytes, memory_budget
from dftfd.runtime.threads import run_on_workers, share_out, worker_count

BYTES_PER_POINT = 240
"""Memory that a grid takes while it is built and sorted; measured."""

ALWAYS_THERE = 32 * 2**20
"""Bytes for which the system is not asked, which takes as long as a small grid does."""

SMALLEST_DISTANCE = 1e-6  # bohr; nearer nuclei leave no room for a border between their cells


_Size = Annotated[int, whole(1, 10**9)]
Charges = Sequence[int] | Annotated[np.ndarray, "atom"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Grid:
    r"""Quadrature points and weights,  int f(r) d^3r ~ sum_p weights_p f(points_p).

    points: (point, 3) [bohr].
    weights: (point,) [bohr^3]; some Lebedev rules make a few of them negative.
    owner: index of the atom each point moves with, (point,); None for points fixed in space.
    """

    points: jax.Array
    weights: jax.Array
    owner: jax.Array | None = None


@public
def molecular_grid(
    atomic_numbers: Annotated[Sequence[int], each(whole(0, HEAVIEST_ELEMENT))],
    coordinates: Annotated[Any, traceable(None, 3)],
    level: Annotated[int, whole(0, N_LEVELS - 1)] = 3,
    *,
    radial: Annotated[str, choice(*RADIAL_SCHEMES)] = "treutler_ahlrichs",
    pruning: Annotated[str | None, choice(*PRUNING_SCHEMES, None)] = "nwchem",
    partition: Annotated[str, choice(*PARTITION_SCHEMES)] = "becke",
    radius_adjustment: Annotated[str | None, choice(*RADIUS_ADJUSTMENTS, None)] = "treutler",
    n_radial: _Size | Sequence[_Size] | None = None,
    n_angular: _Size | Sequence[_Size] | None = None,
) -> Grid:
    r"""Quadrature grid of a molecule, differentiable in the coordinates.

    points_p = R_A + offset_p,   weights_p = volume_p P_A(points_p) / sum_B P_B(points_p),   A = owner_p

    where offsets and volumes are the grid of the free atom A and P are the cell functions of `dftfd.grids.partition`.
    The points of an atom follow each other, atoms in the given order. The defaults reproduce PySCF's.

    atomic_numbers: full nuclear charges (atom,), also of ghosts and of atoms with an effective core potential; a ghost
        without an element has 0.
    coordinates: (atom, 3) [bohr]; a traced JAX array where derivatives are wanted.
    level: quality from 0 to 9, which sets the numbers of radial shells and angular points by period.
    radial: "treutler_ahlrichs", "mura_knowles", "gauss_chebyshev" or "becke".
    pruning: "nwchem", "sg1", "treutler" or None.
    partition: "becke" or "stratmann".
    radius_adjustment: "treutler", "becke" (the two rules for border shifts from Bragg-Slater radii) or None.
    n_radial, n_angular: numbers of shells and of Lebedev points instead of the level's, for all atoms or one per atom.

    Raises InputError for an unknown scheme, a level or size that does not exist, and coordinates that are malformed,
    not finite or coincide; UnsupportedError for SG-1 pruning beyond argon.

    >>> grid = molecular_grid([1, 1], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.4]])
    >>> density = jnp.exp(-2.0 * jnp.linalg.norm(grid.points, axis=1)) / jnp.pi
    >>> round(float(jnp.sum(grid.weights * density)), 6)
    1.0

    A. D. Becke, J. Chem. Phys. 88, 2547 (1988), doi:10.1063/1.454033; O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346
    (1995), doi:10.1063/1.469408.
    """
    schemes = {"radial": radial, "pruning": pruning, "partition": partition, "radius_adjustment": radius_adjustment}
    sizes = {"n_radial": n_radial, "n_angular": n_angular}
    atoms, *definition = _definition(atomic_numbers, coordinates, level, **schemes, **sizes)
    counts = [len(atom.volumes) for atom in atoms]
    found = _partitioned(*_padded(atoms, *definition))
    with suppress(jax.errors.TracerArrayConversionError):
        found = [np.asarray(array) for array in found]  # JAX would compile the cut for each size
    owner = np.repeat(np.arange(len(atoms), dtype=np.int32), counts)
    return Grid(*(jax.device_put(array[: sum(counts)]) for array in (*found, owner)))


def grid_size(atomic_numbers: Charges, level: int) -> int:
    """Number of points of `molecular_grid` at a level, without building it."""
    radial, pruning = RADIAL_SCHEMES["treutler_ahlrichs"], PRUNING_SCHEMES["nwchem"]
    sizes = ((charge, *level_size(charge, level)) for charge in atomic_numbers)
    return sum(int(np.sum(pruning(charge, radial(shells, charge)[0], angular))) for charge, shells, angular in sizes)


def grid_owners(atomic_numbers: Charges, level: int) -> np.ndarray:
    """The atom that each point of `molecular_grid` at a level moves with, (point,)."""
    sizes = [grid_size([charge], level) for charge in atomic_numbers]
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def grid_points(atomic_numbers: Charges, coordinates, level: int) -> np.ndarray:
    """Points (point, 3) of `molecular_grid` at a level, without their weights, which are most of the work."""
    grids = (
        atomic_grid(charge, *level_size(charge, level), "treutler_ahlrichs", "nwchem") for charge in atomic_numbers
    )
    return np.concatenate([grid.offsets + R for grid, R in zip(grids, np.asarray(coordinates), strict=True)])


def pull_back(atomic_numbers: Charges, coordinates, d_points, d_weights, level: int = 3, **schemes) -> np.ndarray:
    r"""dE/dR (atom, 3) of a quantity E of the grid, from dE/dpoints (point, 3) and dE/dweights (point,).

    The transpose of the derivative of `molecular_grid`, whose other arguments are the same, by reverse differentiation
    in blocks of points.
    """
    arguments = _padded(*_of_level(atomic_numbers, coordinates, level, **schemes))
    owner, n_points, n_workers = arguments[2].reshape(-1), len(d_weights), worker_count()
    d_weights = _pad_rows(np.asarray(d_weights), owner.size)
    slopes = run_on_workers(
        [partial(_weight_slopes, *arguments, d_weights=d_weights, first=k, step=n_workers) for k in range(n_workers)]
    )
    by_point, by_centre = (np.sum([np.asarray(part) for part in parts], axis=0) for parts in zip(*slopes, strict=True))
    by_point = np.asarray(d_points) + by_point[:n_points]
    ends = np.searchsorted(owner[:n_points], np.arange(len(atomic_numbers)), side="right")
    moved = [of_atom.sum(axis=0) for of_atom in np.split(by_point, ends[:-1])]
    return np.array(moved) + by_centre[: len(atomic_numbers)]


def weight_changes(atomic_numbers: Charges, coordinates, atom: int, level: int) -> np.ndarray:
    """Derivatives (atom, 3, point) of the weights of an atom's points of `molecular_grid` by each nucleus."""
    atoms, adjustment, R, partition = _of_level(atomic_numbers, coordinates, level)
    arguments = _padded(atoms, adjustment, R, partition, only=atom)
    n = len(atoms[atom].volumes)
    return np.asarray(_share_changes(*arguments))[: len(atoms), :, :n]


def weight_curvature(atomic_numbers: Charges, coordinates, energies, level: int, report=None) -> np.ndarray:
    """Second derivatives (atom, 3, atom, 3) of sum_p weight_p energies_p of `molecular_grid` by the nuclei.

    energies: (point,).   report: called with (coordinates done, coordinates in all).
    Forward differentiation of `pull_back`'s reverse one.
    """
    arguments = _padded(*_of_level(atomic_numbers, coordinates, level))
    n_atoms, n_points, directions = len(atomic_numbers), len(energies), range(3 * len(atomic_numbers))
    owner, shape = arguments[2].reshape(-1), arguments[3].shape
    ends = np.searchsorted(owner[:n_points], np.arange(n_atoms), side="right")
    energies, done = _pad_rows(np.asarray(energies), owner.size), itertools.count(1)

    def rows(part):
        found = []
        for number in part:
            direction = np.zeros(shape)
            direction[divmod(number, 3)] = 1.0
            by_point, by_centre = map(np.asarray, _slopes_along(*arguments, energies, direction))
            moved = [of_atom.sum(axis=0) for of_atom in np.split(by_point[:n_points], ends[:-1])]
            found.append((number, np.array(moved) + by_centre[:n_atoms]))
            if report is not None:
                report(next(done), len(directions))
        return found

    by_number = dict(pair for part in share_out(directions, rows) for pair in part)
    return np.stack([by_number[number] for number in directions]).reshape(n_atoms, 3, n_atoms, 3)


def _of_level(atomic_numbers, coordinates, level, **schemes):
    """`_definition` of a level with the usual schemes where none are given."""
    defaults = inspect.signature(molecular_grid).parameters.values()
    schemes = {p.name: p.default for p in defaults if p.kind is p.KEYWORD_ONLY} | schemes
    return _definition(atomic_numbers, coordinates, level, **schemes)


def _definition(charges, coordinates, level, *, radial, pruning, partition, radius_adjustment, n_radial, n_angular):
    """Checked arguments of `molecular_grid`: atomic grids, border shifts, coordinates, partition."""
    charges = tuple(int(charge) for charge in charges)
    coordinates = _checked_coordinates(coordinates, len(charges))
    shells, angular = zip(*(level_size(charge, level) for charge in charges), strict=True)
    sizes = list(zip(_per_atom("n_radial", n_radial, shells), _per_atom("n_angular", n_angular, angular), strict=True))
    _require_memory(sizes)
    atoms = [atomic_grid(charge, *size, radial, pruning or "none") for charge, size in zip(charges, sizes, strict=True)]
    adjustment = RADIUS_ADJUSTMENTS[radius_adjustment or "none"](np.array(charges))
    return atoms, adjustment, coordinates, partition


def _padded(atoms: list[AtomicGrid], adjustment, coordinates, partition: str, only=None) -> tuple:
    """The arguments of `_partitioned`.   only: the atom whose points are wanted, None for those of all.

    Shapes are rounded up, so that one compiled program serves all geometries of a molecule and most molecules of about
    its size.
    """
    n_atoms, owners = len(atoms), np.arange(len(atoms), dtype=np.int32)
    if only is not None:
        atoms, owners = [atoms[only]], owners[only : only + 1]
    n_points = sum(len(atom.volumes) for atom in atoms)
    padded_atoms = round_up(n_atoms)
    block = _block_length(padded_atoms)
    n_blocks = -(-n_points // block)
    shape = (1 << (n_blocks - 1).bit_length(), block)
    owner = np.repeat(owners, [len(atom.volumes) for atom in atoms])
    return (
        _pad_rows(np.concatenate([atom.offsets for atom in atoms]), shape[0] * block).reshape(*shape, 3),
        _pad_rows(np.concatenate([atom.volumes for atom in atoms]), shape[0] * block).reshape(shape),
        _pad_rows(owner, shape[0] * block).reshape(shape),
        (np if isinstance(coordinates, np.ndarray) else jnp).pad(coordinates, ((0, padded_atoms - n_atoms), (0, 0))),
        np.pad(adjustment, (0, padded_atoms - n_atoms)),
        n_atoms,
        n_blocks,
        partition,
    )


@partial(jax.jit, static_argnames="partition")
def _partitioned(offsets, volumes, owner, coordinates, adjustment, n_atoms, n_blocks, partition):
    """Points (block * point, 3) and weights (block * point,); `n_blocks` of the blocks in the arguments are filled."""
    borders = cells(coordinates, adjustment, n_atoms)
    points = offsets + coordinates[owner]

    @jax.checkpoint
    def share(points, owner):
        return owner_share(points, owner, borders, PARTITION_SCHEMES[partition])

    def share_if_filled(block):
        index, points, owner = block
        return jax.lax.cond(index < n_blocks, share, lambda points, owner: jnp.zeros(len(points)), points, owner)

    shares = jax.lax.map(share_if_filled, (jnp.arange(len(points)), points, owner))
    return points.reshape(-1, 3), (volumes * shares).reshape(-1)


@partial(jax.jit, static_argnames="partition")
def _weight_slopes(
    offsets, volumes, owner, coordinates, adjustment, n_atoms, n_blocks, partition, d_weights, first, step
):
    """Slopes by points (block * point, 3) and by centres (atom, 3) of a quantity with the given slopes by weights.

    Those of every `step`-th block from the `first` on, which is the share of one worker.
    """
    inverse_distance, to_centres = jax.vjp(lambda R: cells(R, adjustment, n_atoms).inverse_distance, coordinates)
    borders = cells(coordinates, adjustment, n_atoms)
    points, d_shares = offsets + coordinates[owner], d_weights.reshape(volumes.shape) * volumes

    def of_block(number, slopes):
        k, (by_point, by_centre, by_inverse) = first + number * step, slopes
        of_points, *more = pull_share_back(d_shares[k], points[k], owner[k], borders, PARTITION_SCHEMES[partition])
        return by_point.at[k].set(of_points), by_centre + more[0], by_inverse + more[1]

    start = jnp.zeros_like(points), jnp.zeros_like(coordinates), jnp.zeros_like(inverse_distance)
    by_point, by_centre, by_inverse = jax.lax.fori_loop(0, (n_blocks - first + step - 1) // step, of_block, start)
    return by_point.reshape(-1, 3), by_centre + to_centres(by_inverse)[0]


@partial(jax.jit, static_argnames="partition")
def _share_changes(offsets, volumes, owner, coordinates, adjustment, n_atoms, n_blocks, partition):
    """Slopes (atom, 3, block * point) of weights by the centres."""
    borders = cells(coordinates, adjustment, n_atoms)
    points = offsets + coordinates[owner]

    def of_block(block):
        volumes, points, owner = block
        return volumes[None, None, :] * share_slopes(points, owner, borders, PARTITION_SCHEMES[partition])

    found = jax.lax.map(of_block, (volumes, points, owner))
    return jnp.moveaxis(found, 0, 2).reshape(*coordinates.shape, -1)


@partial(jax.jit, static_argnames="partition")
def _slopes_along(offsets, volumes, owner, coordinates, adjustment, n_atoms, n_blocks, partition, d_weights, direction):
    """The change of `_weight_slopes` as the centres move along a direction (atom, 3)."""
    slopes = lambda R: _weight_slopes(
        offsets, volumes, owner, R, adjustment, n_atoms, n_blocks, partition, d_weights, 0, 1
    )
    return jax.jvp(slopes, (coordinates,), (direction,))[1]


def _block_length(n_atoms: int) -> int:
    """Points per block: a power of two that keeps one array (atom, point) near half a MiB, the size of a cache."""
    return 1 << int(np.clip(16 - np.log2(n_atoms), 8, 12))


def round_up(n: int) -> int:
    """n rounded up to four significant bits: at most one eighth more."""
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


def _pad_rows(array: np.ndarray, length: int) -> np.ndarray:
    padded = np.zeros((length, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    return padded


def _require_memory(sizes) -> None:
    """Raise ResourceError where products of so many shells and angular points would not fit into memory."""
    n_points = sum(shells * angular for shells, angular in sizes)
    needed = BYTES_PER_POINT * n_points
    if needed > ALWAYS_THERE and needed > (budget := memory_budget()):
        raise ResourceError(
            f"up to {n_points:.1e} grid points need {in_bytes(needed)}, the limit is {in_bytes(budget)}; use a lower "
            "level, or smaller n_radial and n_angular."
        )


def _per_atom(name: str, given, default: Sequence[int]) -> Sequence[int]:
    values = default if given is None else [given] * len(default) if isinstance(given, int) else given
    if len(values) != len(default):
        raise InputError(f"{name} has {len(values)} numbers; one for all or one per atom ({len(default)}) is needed.")
    return values


def _checked_coordinates(coordinates, n_atoms: int) -> np.ndarray | jax.Array:
    """Coordinates as a float64 array (atom, 3), of JAX where they are being traced; else distances are inspected."""
    if not n_atoms or np.shape(coordinates) != (n_atoms, 3):
        raise InputError(
            f"coordinates have the shape {np.shape(coordinates)}, but {n_atoms} atoms need ({n_atoms}, 3)."
        )
    try:
        values = np.asarray(coordinates, dtype=float)
    except jax.errors.TracerArrayConversionError:
        return jnp.asarray(coordinates)
    distances = np.linalg.norm(values[:, None] - values, axis=-1) + np.diag(np.full(n_atoms, np.inf))
    if distances.min() < SMALLEST_DISTANCE:
        first, second = np.unravel_index(distances.argmin(), distances.shape)
        raise InputError(f"atoms {first} and {second} (from 0) lie {distances.min():.1e} bohr apart; move one of them.")
    return values
