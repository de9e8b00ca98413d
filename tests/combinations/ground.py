"""Properties of the ground state of a random case: PySCF, differences of whole energies, invariances."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np

import dftfd
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis
from tests.combinations.cases import Case
from tests.combinations.differences import FIELD, STEP, Trial, bend, slope
from tests.combinations.formulas import (
    DOUBLE_HYBRIDS,
    FORMULAS,
    LIMIT,
    formula_energy,
    pyscf_xc_energy,
    second_order_energy,
)
from tests.combinations.solving import (
    KINKED,
    NOT_IN_PYSCF,
    PYSCF_NAMES,
    Comparison,
    Inapplicable,
    direction,
    in_field,
    jumps,
    molecule_of,
    moving_grid,
    of_one_set,
    options_of,
    pyscfs,
    solved,
    total,
)

OPTIONS_OF_ENERGY = (
    "grid_level", "nlc_grid_level", "density_fit", "auxiliary_basis", "grid", "electric_field", "point_charges",
    "relativity", "external_potential", "terms",
)  # fmt: skip
STILL = {"electric_field", "point_charges", "external_potential", "grid"}
"""Options of what stays in space when the molecule moves."""


XC_PARTS = ("xc", "nonlocal", "grid_functional")


def energy(case: Case) -> Iterator[Comparison]:
    """Its parts of the grid, and of perturbation theory, anew; then the whole energy and the Fock matrix in PySCF."""
    result = solved(case)
    parts = _xc_energy(case, result)
    if parts is not None:
        ours = sum(result.energies.get(name, 0.0) for name in XC_PARTS)
        yield "the formulas' energy of the density", ours, parts, 2e-7
    if case.xc in DOUBLE_HYBRIDS:
        orbitals = result.mo_energy, result.mo_coeff, result.mo_occ
        fit = auxiliary_basis(result.molecule, True, pairs=True)[0] if result.settings.options.density_fit else None
        found = DOUBLE_HYBRIDS[case.xc][1] * second_order_energy(to_pyscf(result.molecule), *orbitals, fit)
        yield "perturbation theory", result.energies["pt2"], found, 1e-8
    try:
        mf, of_nuclei = pyscfs(case, result)
    except Inapplicable:
        if parts is None:
            raise
        return
    P = of_one_set(result.density_matrix)
    yield "PySCF's energy of the density", result.energy, mf.energy_tot(P) + of_nuclei, 2e-7
    F = mf.get_hcore() + mf.get_veff(mf.mol, P)
    F = F if F.ndim == 3 else F[None]
    # the potential of no electrons has no limit (PBE's correlation: as n^(-1/3)), and where tau is Weizsaecker's,
    # libxc's slope by it is that beyond its clamp (TPSS for H3+: 3e-3 from differences)
    least = 2 if "m06" in case.xc or "tpss" in case.xc else 1
    known = [s for s, occupied in enumerate(result.mo_occ) if np.sum(occupied > 0) >= least]
    yield "PySCF's Fock matrix of the density", result.fock[known], F[known], 2e-6


def _xc_energy(case, result) -> float | None:
    """What is integrated on the grid [hartree], in PySCF and by plain formulas; None where neither has it."""
    formula, xc = FORMULAS.get(case.xc), PYSCF_NAMES.get(case.xc, case.xc)
    if formula is None and case.xc not in DOUBLE_HYBRIDS and any(part in case.xc for part in NOT_IN_PYSCF):
        return None
    if formula is not None and formula.takes_exchange and len(result.grid[1]) > LIMIT:
        return None
    if formula is not None and formula.nonlocal_grid and "grid" in case.options:
        return None
    mole = to_pyscf(result.molecule)
    rest = DOUBLE_HYBRIDS[case.xc][0] if case.xc in DOUBLE_HYBRIDS else xc if formula is None else formula.rest
    E = pyscf_xc_energy(mole, rest, result.density_matrix, result.grid) if rest else 0.0
    return E if formula is None else E + formula_energy(formula, mole, result)


def orbital_energies(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    S, C, n = result.overlap, result.mo_coeff, result.mo_occ
    in_orbitals = np.einsum("spi,pq,sqj->sij", C, S, C)
    yield "orthonormal orbitals", in_orbitals, np.broadcast_to(np.eye(C.shape[2]), in_orbitals.shape), 1e-9
    yield "density of the orbitals", result.density_matrix, np.einsum("spi,si,sqi->spq", C, n, C), 1e-9
    if result.method == "ROKS":
        return
    F = np.einsum("spi,spq,sqj->sij", C, result.fock, C)
    yield "the Fock matrix in its orbitals", F, np.stack([np.diag(e) for e in result.mo_energy]), 1e-5


def components(case: Case) -> Iterator[Comparison]:
    """Parts of the energy by hand: one-electron matrices, electrons by orbitals and on the grid, populations."""
    result = solved(case)
    yield "sum of the parts", sum(result.energies.values()), result.energy, 1e-9
    P = result.density_matrix.sum(axis=0)
    nuclei = result.molecule
    R, Z = nuclei.coordinates, np.where(nuclei.ghost, 0, nuclei.nuclear_charges)
    if not STILL & set(case.options) and "solvent" not in case.options:
        pairs = sum(Z[a] * Z[b] / np.linalg.norm(R[a] - R[b]) for a in range(len(Z)) for b in range(a))
        yield "repulsion of the nuclei", result.energies["nuclear"], pairs, 1e-9
    yield "electrons", np.sum(P * result.overlap), result.n_electrons, 1e-8
    yield "charges of the atoms", result.charges().sum(), result.charge, 1e-8
    if result.n_electrons_quadrature is not None:
        yield "electrons on the grid", np.sum(result.n_electrons_quadrature), result.n_electrons, 0.1


def traced_energy(case: Case) -> Iterator[Comparison]:
    """The energy as JAX code against that of the SCF, and its gradient against the Fock matrix."""
    result = solved(case)
    if "solvent" in case.options:
        raise Inapplicable
    options = options_of(case, result.molecule)
    E = dftfd.energy(result.molecule, case.xc, **{k: options[k] for k in OPTIONS_OF_ENERGY if k in options})
    value, F = jax.value_and_grad(lambda P: E(P))(result.density_matrix)
    yield "energy in JAX", float(value), result.energy, 1e-8
    yield "its gradient", np.asarray(F), result.fock, 1e-7


def janak(case: Case) -> Iterator[Comparison]:
    """dE/dn_i = epsilon_i of given occupations."""
    functional = get_functional(case.xc)
    if functional.pt2 or not all(
        term.has_energy for _, term in functional.terms
    ):  # of full orbitals; without an energy
        raise Inapplicable
    if case.method == "ROKS" or "smearing" in case.options:
        raise Inapplicable
    result = solved(case)
    n = [list(of_spin[of_spin > 0]) for of_spin in result.mo_occ]
    s = max(range(len(n)), key=lambda s: len(n[s]))
    if not len(n[s]) or np.sum(result.mo_occ[s] > 0) == result.mo_occ.shape[1]:
        raise Inapplicable

    def value(t):
        numbers = [list(of_spin) for of_spin in n]
        numbers[s][-1] += t
        return total(solved(case, guess=result, occupations=numbers))

    top, step = n[s][-1], 0.02
    capacity = 3 - len(n)
    n[s][-1] = min(top, capacity - 3 * step)
    middle = solved(case, guess=result, occupations=n)
    expected, error = slope(value, step)
    epsilon = middle.mo_energy[s][len(n[s]) - 1]
    yield "differences of energies by occupation", epsilon, expected, 1e-5 + 0.1 * error, error


def forces(case: Case) -> Iterator[Comparison]:
    moving_grid(case)
    result, d = solved(case), direction(case)
    F = result.forces()
    expected, error = slope(lambda t: total(solved(case, t * d, guess=result)), STEP)
    yield "differences of energies", -np.sum(F * d), expected, 2e-6 + jumps(case) + 0.1 * error, error
    if rows := case.options.get("point_charges"):
        along = np.random.default_rng(case.seed).normal(size=(len(rows), 3))
        moved = lambda t: (np.array(rows) + np.pad(t * along, [(0, 0), (1, 0)])).tolist()
        expected, error = slope(lambda t: total(solved(case, guess=result, point_charges=moved(t))), STEP)
        got = -np.sum(result.point_charge_forces() * along)
        yield "differences of energies by point charges", got, expected, 2e-6 + 0.1 * error, error


def force_sums(case: Case) -> Iterator[Comparison]:
    if STILL & set(case.options) or case.xc.startswith("r_x"):
        raise Inapplicable
    result = solved(case)
    F, R = result.forces(), result.molecule.coordinates
    yield "no net force", F.sum(axis=0), np.zeros(3), 1e-6
    torque = np.cross(R, F).sum(axis=0)
    exact = case.xc == "hf" and "solvent" not in case.options  # a cavity has a grid, too
    yield "no torque but the grid's", torque, np.zeros(3), 1e-7 if exact else 2e-2


def hessian(case: Case) -> Iterator[Comparison]:
    moving_grid(case)
    result, d = solved(case), direction(case)
    H = result.hessian()
    if any(part in case.xc for part in KINKED):
        expected, error = slope(lambda t: -np.sum(solved(case, t * d, guess=result).forces() * d), 2 * STEP)
    else:
        expected, error = bend(lambda t: total(solved(case, t * d, guess=result)), total(result), 2 * STEP)
    yield "differences of energies", np.einsum("ax,axby,by->", d, H, d), expected, 2e-5 + 0.1 * error, error
    if not STILL & set(case.options) and not case.xc.startswith("r_x"):
        yield "sum over the atoms", H.sum(axis=0), np.zeros((3, len(d), 3)), 2e-5


def dipole(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    if result.functional.pt2 or not result.functional.has_energy:
        raise Inapplicable
    expected, error = slope(lambda t: -total(solved(case, guess=result, **in_field(case, t * d))), FIELD)
    yield "differences of energies in fields", result.dipole @ d, expected, 2e-6 + jumps(case) + 0.1 * error, error


def parameters(case: Case) -> Iterator[Comparison]:
    """All of them move at once."""
    result = solved(case)
    slopes = result.parameter_gradient()
    named = {(term, name) for term, of_term in slopes.items() for name, x in of_term.items() if np.ndim(x) == 0}
    values = result.functional.parameters
    names = sorted({name for _, name in named if isinstance(values.get(name), float)} - {"s_from"})
    held = [{str(t.parameters[name]) for _, t in result.functional.terms if name in t.parameters} for name in names]
    if not names or max(map(len, held)) > 1:  # one name for two numbers, which with_parameters refuses
        raise Inapplicable
    shares = np.random.default_rng(case.seed).uniform(0.5, 1.0, len(names))
    steps = {name: share * max(abs(values[name]), 0.1) for name, share in zip(names, shares, strict=True)}
    holders = {name: {t.name for _, t in result.functional.terms if name in t.parameters} for name in names}
    places = {name: [name] if name == "omega" else [f"{t}.{name}" for t in holders[name]] for name in names}
    got = sum(of_term[name] * step for name, step in steps.items() for of_term in slopes.values() if name in of_term)

    def value(t):
        moved = {place: values[name] + t * steps[name] for name in names for place in places[name]}
        return total(solved(case, guess=result, xc=result.functional.with_parameters(**moved)))

    expected, error = slope(value, 0.005)
    tolerance = 1e-5 * max(1.0, abs(expected)) + 0.1 * error
    yield f"differences of energies by {', '.join(names)}", got, expected, tolerance, error


def order(case: Case) -> Iterator[Comparison]:
    """The atoms in another order."""
    if len(case.atoms) == 1 or case.options.get("terms") == "constraint":  # on the first atom
        raise Inapplicable
    result = solved(case)
    other = solved(case, atoms=case.atoms[::-1])
    yield "energy of the atoms in another order", total(other), total(result), 1e-7
    yield "dipole of the atoms in another order", other.dipole, result.dipole, 2e-5
    yield "forces of the atoms in another order", other.forces()[::-1], result.forces(), 1e-5


def rotation(case: Case) -> Iterator[Comparison]:
    """Turned together with the field and the charges; exact but for the grid."""
    if {"external_potential", "grid"} & set(case.options) or case.xc.startswith("r_x"):
        raise Inapplicable
    case = replace(case, options=case.options | {"grid_level": case.options["grid_level"] + 2 * min(Trial.number, 2)})
    U = np.linalg.qr(np.random.default_rng(case.seed).normal(size=(3, 3)))[0]
    U *= np.sign(np.linalg.det(U))
    result = solved(case)
    more = {}
    if "electric_field" in case.options:
        more["electric_field"] = list(U @ case.options["electric_field"])
    if "point_charges" in case.options:
        more["point_charges"] = [[row[0], *(U @ row[1:])] for row in case.options["point_charges"]]
    turned = [(symbol, list(U @ np.array(r))) for symbol, r in case.atoms]
    other = solved(case, atoms=turned, **more)
    exact = case.xc == "hf" and "solvent" not in case.options
    yield "energy of the turned molecule", total(other), total(result), 1e-8 if exact else 3e-3
    yield "dipole of the turned molecule", U.T @ other.dipole, result.dipole, 2e-5 if exact else 2e-2


def spins(case: Case) -> Iterator[Comparison]:
    """A closed shell with matrices of both spins."""
    if case.is_open or "occupations" in case.options:
        raise Inapplicable
    result = solved(case)
    other = solved(case, method="UKS", guess=result)
    yield "energy of UKS", total(other), total(result), 1e-8
    yield "forces of UKS", other.forces(), result.forces(), 1e-6


def spin_exchange(case: Case) -> Iterator[Comparison]:
    """Alpha and beta change places, by occupations."""
    restricted = "occupations" in case.options and not case.is_open
    if "smearing" in case.options or case.method == "ROKS" or restricted:
        raise Inapplicable
    result = solved(case, method="UKS")
    numbers = [list(n[n > 0]) or [0.0] for n in result.mo_occ]
    P = result.density_matrix[::-1]
    other = solved(case, method="UKS", guess=np.ascontiguousarray(P), occupations=numbers[::-1])
    yield "energy of exchanged spins", total(other), total(result), 1e-8
    yield "density of exchanged spins", other.density_matrix[::-1], result.density_matrix, 2e-5
    yield "forces of exchanged spins", other.forces(), result.forces(), 1e-5


def size(case: Case) -> Iterator[Comparison]:
    """With a helium atom 60 bohr away, energies add up, unless its orbitals have been mixed with the molecule's."""
    unlike = {"occupations", "smearing", "broken_symmetry", "grid", "terms"}
    unlike |= {"external_potential", "electric_field", "point_charges"}
    if unlike & set(case.options) or case.xc.startswith("r_x"):
        raise Inapplicable
    result = solved(case)
    far = ["He", [30.0, 3.0, -4.0]]
    alone = _helium(case, far)
    both = solved(case, atoms=[*case.atoms, far])
    yield "energy with helium far away", total(both) - total(alone), total(result), 2e-5


def _helium(case, far):
    """The helium atom by itself, with the case's options."""
    of_closed_shell = {k: v for k, v in case.options.items() if k != "broken_symmetry"}
    method = "UKS" if case.method == "UKS" else "auto"
    other = replace(case, atoms=[far], charge=0, spin=0, method=method, options=of_closed_shell)
    molecule = molecule_of(other)
    options = options_of(other, molecule)
    return dftfd.run_scf(molecule, other.xc, other.method, **options)
