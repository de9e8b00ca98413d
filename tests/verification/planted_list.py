"""Defects of kinds that programs had: lines of the library, what stands there instead, and cases that may show it."""

# ruff: noqa: E501  replacements stand on one line as they do in the files

from collections.abc import Callable
from typing import NamedTuple

from tests.combinations.cases import Case


class Planted(NamedTuple):
    """One replacement in one file of the package.

    what: in words.   file: below dftfd.   old: stands there once.   concerns: whether a case is worth a try.
    """

    what: str
    file: str
    old: str
    new: str
    concerns: Callable[[Case], bool]


def _of(*properties: str, xc=(), option=None, spins=None) -> Callable[[Case], bool]:
    """Cases of these properties, with one of the parts in the functional's name, an option, one or two spins."""

    def concerns(case):
        return (
            case.property in properties
            and (not xc or any(part in case.xc for part in xc))
            and (option is None or option in case.options)
            and (spins is None or case.is_open == spins)
        )

    return concerns


HYBRIDS = ("hf", "pbe0", "b3lyp", "HF", "camb3lyp", "hse06", "wb97x", "tpssh", "m062x")
SEMILOCAL = ("lda", "pbe", "blyp", "tpss", "r2scan", "m06l")
SMALL = (*SEMILOCAL, *HYBRIDS)
RANGES = ("camb3lyp", "wb97x", "hse06")
TAU = ("tpss", "r2scan", "m06l")

_SURROUNDINGS = (
    Planted(
        "the sign of a field on electrons",
        "terms/one_electron.py",
        'V = V + np.einsum("x,xab->ab", self.electric_field',
        'V = V - np.einsum("x,xab->ab", self.electric_field',
        _of("dipole", "energy", "polarizability", xc=SMALL),
    ),
    Planted(
        "the sign of a field on nuclei",
        "terms/one_electron.py",
        "molecule.nuclear_repulsion - float(Z @ R",
        "molecule.nuclear_repulsion + float(Z @ R",
        _of("forces", "energy", option="electric_field", xc=SMALL),
    ),
    Planted(
        "a field's force on nuclei",
        "terms/one_electron.py",
        "gradient = -Z[:, None] * self.electric_field",
        "gradient = -0.0 * Z[:, None] * self.electric_field",
        _of("forces", "hessian", option="electric_field", xc=SMALL),
    ),
    Planted(
        "half of a field's force on electrons",
        "terms/one_electron.py",
        "gradient += electric_field_derivative(molecule, P, self.electric_field)",
        "gradient += 0.5 * electric_field_derivative(molecule, P, self.electric_field)",
        _of("forces", "hessian", option="electric_field", xc=SMALL),
    ),
    Planted(
        "the force of point charges on nuclei",
        "terms/one_electron.py",
        "gradient[a] += _coulomb_slope(R[a], Z[a], self.positions, self.charges)",
        "gradient[a] += 0.0",
        _of("forces", option="point_charges", xc=SMALL),
    ),
    Planted(
        "point charges in the Hessian",
        "terms/one_electron.py",
        "if self.relativity or self.electric_field.any() or len(self.charges):",
        "if self.relativity or self.electric_field.any():",
        _of("hessian", option="point_charges"),
    ),
    Planted(
        "forces of core potentials",
        "terms/one_electron.py",
        "kinetic_energy_derivative(molecule, P) + core_potential_derivative(molecule, P)",
        "kinetic_energy_derivative(molecule, P)",
        lambda c: c.property in ("forces", "force_sums") and len(c.atoms) > 1 and c.basis in ("lanl2dz", "sbkjc"),
    ),
    Planted(
        "a percent of relativistic forces",
        "terms/one_electron.py",
        "x2c_core_hamiltonian_derivative(molecule, P), np.zeros(n)",
        "0.99 * x2c_core_hamiltonian_derivative(molecule, P), np.zeros(n)",
        _of("forces", option="relativity", xc=SMALL),
    ),
    Planted(
        "cavity terms in forces of SMD",
        "terms/solvent.py",
        "self._solvent.epsilon) + self._cds[1]",
        "self._solvent.epsilon)",
        lambda c: c.property in ("forces", "hessian", "excited_forces") and c.options.get("solvent_model") == "smd",
    ),
    Planted(
        "a solvent in responses and Hessians",
        "terms/solvent.py",
        "if triplet or imaginary == 1.0:",
        "if triplet or imaginary >= 0.0:",
        _of("hessian", "polarizability", "infrared", option="solvent"),
    ),
    Planted(
        "the optical constant in static responses",
        "terms/solvent.py",
        "self._solvent.optical if self._to_fast else self._solvent.epsilon",
        "self._solvent.optical",
        _of("hessian", "polarizability", "infrared", option="solvent"),
    ),
    Planted(
        "one spin in an external potential",
        "terms/external.py",
        "energy = float(np.sum(P * V)) + self._energy_of_nuclei",
        "energy = float(np.sum(P[0] * V)) + self._energy_of_nuclei",
        _of("forces", "dipole", "components", "janak", option="external_potential", spins=True),
    ),
    Planted(
        "the force of an external potential on nuclei",
        "terms/external.py",
        "gradient[atoms] -= Z[:, None] * self.potential.slopes(R)",
        "gradient[atoms] -= 0.0",
        lambda c: c.property == "forces" and c.options.get("external_potential") == "well",
    ),
)
_EXCHANGE = (
    Planted(
        "a factor two of exchange in the response of closed shells",
        "terms/coulomb_exchange.py",
        "found[s] = found[s] - share(P) * fraction * K",
        "found[s] = found[s] - fraction * K",
        _of("polarizability", "excitations", "stability", "excited_forces", xc=HYBRIDS, spins=False),
    ),
    Planted(
        "two percent of the energy of exchange, not of its matrix",
        "terms/coulomb_exchange.py",
        '["exact_exchange"] = -0.5 * sum(',
        '["exact_exchange"] = -0.49 * sum(',
        _of("forces", "energy", "janak", xc=HYBRIDS),
    ),
    Planted(
        "exchange in A - B",
        "terms/coulomb_exchange.py",
        "exchange_on_orbitals(*pair, omega, real - imaginary)",
        "exchange_on_orbitals(*pair, omega, real)",
        _of("excitations_of_pyscf", xc=HYBRIDS),
    ),
    Planted(
        "long-range exchange in forces",
        "terms/coulomb_exchange.py",
        "return self.builder.gradient(P, C_occ, self.exact_exchange)",
        "return self.builder.gradient(P, C_occ, self.exact_exchange[:1])",
        _of("forces", "excited_forces", xc=("camb3lyp", "wb97x")),
    ),
    Planted(
        "the restricted factor of derivatives by omega",
        "terms/coulomb_exchange.py",
        'of_term["omega"] -= 0.5 * share(P) * fraction',
        'of_term["omega"] -= 0.5 * fraction',
        _of("parameters", xc=RANGES, spins=False),
    ),
    Planted(
        "exchange of local hybrids in A - B",
        "terms/local_hybrid.py",
        "if imaginary != 0.0:",
        "if imaginary == 2.0:",
        _of("tamm_dancoff", xc=("lh07t", "sn_x")),
    ),
    Planted(
        "perturbation theory of equal spins",
        "libcint/two_electron.py",
        "energies = float(found.e_corr_os), float(found.e_corr_ss)",
        "energies = float(found.e_corr_os), 0.5 * float(found.e_corr_ss) * len(mo_occ)",
        _of("spins", "order", "size", xc=("b2plyp",), spins=False),
    ),
)
_ORBITALS = (
    Planted(
        "one spin in the dipole",
        "properties/moments.py",
        'np.einsum("xab,sab->x", bridge.position_integrals(molecule, 1), P)',
        'np.einsum("xab,sab->x", bridge.position_integrals(molecule, 1), P[:1])',
        _of("dipole", xc=SMALL, spins=True),
    ),
    Planted(
        "the restricted factor of the entropy",
        "scf/orbitals.py",
        "entropy += self.capacity * self.width *",
        "entropy += self.width *",
        _of("forces", "spins", "dipole", option="smearing", spins=False),
    ),
    Planted(
        "how occupations follow a field",
        "scf/orbitals.py",
        "slope = -f * (1.0 - f)",
        "slope = -f * (1.0 - 0.5 * f)",
        lambda c: c.property == "polarizability" and isinstance(c.options.get("smearing"), float),
    ),
    Planted(
        "a factor two of the entropy of Gaussian smearing",
        "scf/orbitals.py",
        "return -np.exp(-(x**2)) / (2.0 * np.sqrt(np.pi))",
        "return -np.exp(-(x**2)) / np.sqrt(np.pi)",
        lambda c: c.property in ("forces", "dipole", "polarizability") and isinstance(c.options.get("smearing"), list),
    ),
    Planted(
        "given occupations in the wrong order",
        "scf/orbitals.py",
        "occupation[s, lowest] = of_spin",
        "occupation[s, lowest] = of_spin[::-1]",
        _of("janak", option="occupations"),
    ),
    Planted(
        "one spin in the energy-weighted density",
        "model/forces.py",
        "PF = sum(P_s @ F_s for P_s, F_s in zip(P, F, strict=True))",
        "PF = P[0] @ F[0]",
        _of("forces", "order", xc=SMALL, spins=True),
    ),
    Planted(
        "forces where basis functions are left out",
        "model/forces.py",
        "if C.shape[1] < len(S):",
        "if C.shape[1] < 0:",
        _of("forces", option="linear_dependence"),
    ),
    Planted(
        "orbitals in the wrong order on load",
        "results/result_file.py",
        "**{name: arrays.get(name) for name in RESULT_ARRAYS},",
        '**{name: arrays[name][..., ::-1] if name == "mo_coeff" else arrays.get(name) for name in RESULT_ARRAYS},',
        _of("save_load", xc=SMALL),
    ),
    Planted(
        "fields and charges on load",
        "results/result_file.py",
        'text["options"] | arrays_of_options | {',
        'text["options"] | {',
        lambda c: c.property == "save_load" and "point_charges" in c.options,
    ),
)
_GRID = (
    Planted(
        "the motion of the grid",
        "terms/on_grid.py",
        "if grid.moves and grid_response:",
        "if grid.moves and not grid_response:",
        _of("forces", "force_sums", xc=SEMILOCAL),
    ),
    Planted(
        "the weights of the moving grid",
        "terms/on_grid.py",
        "by_points[counting], by_weights[counting] = slopes.points, slopes.weights",
        "by_points[counting] = slopes.points",
        _of("forces", "force_sums", xc=SEMILOCAL),
    ),
    Planted(
        "a grid kept for another geometry",
        "terms/on_grid.py",
        "    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)\n    return",
        "    kept = quadrature_grid.__dict__.setdefault('kept', {})\n    grid = kept.setdefault((molecule.symbols, level), molecular_grid(molecule.atomic_numbers, molecule.coordinates, level))\n    return",
        _of("forces", "order", xc=SEMILOCAL),
    ),
    Planted(
        "the factor of tau in matrices",
        "xc/matrix.py",
        "M += weighted_gram(A, 0.25 * potential[TAU], scratch)",
        "M += weighted_gram(A, 0.26 * potential[TAU], scratch)",
        _of("energy", "forces", "janak", "dipole", xc=TAU),
    ),
    Planted(
        "the factor of tau in responses",
        "xc/transitions.py",
        "out[GRADIENT] += 0.5 * v[TAU] * phi[GRADIENT]",
        "out[GRADIENT] += 0.25 * v[TAU] * phi[GRADIENT]",
        _of("excitations_of_pyscf", "polarizability", "hessian", "excited_forces", xc=TAU),
    ),
    Planted(
        "second derivatives in matrices of Laplacians",
        "xc/matrix.py",
        'M += np.matmul(ao[1 + i], weighted.T, out=scratch("product", n_ao, n_ao))',
        'M += 0.9 * np.matmul(ao[1 + i], weighted.T, out=scratch("product", n_ao, n_ao))',
        _of("forces", "janak", "dipole", xc=("scanl", "br89", "lapl")),
    ),
    Planted(
        "forces of dispersion",
        "terms/dispersion.py",
        "return self._energy_and_gradient[1]",
        "return 0.0 * self._energy_and_gradient[1]",
        lambda c: c.property in ("forces", "hessian") and "-d" in c.xc and len(c.atoms) > 1,
    ),
    Planted(
        "the cell volume's part of double integrals",
        "xc/nonlocal_kernel.py",
        "d_weights += explicit + more[2]",
        "d_weights += more[2]",
        _of("forces", xc=("pair", "vdw")),  # VV10 is symmetric, which doubles the other side
    ),
)
_RESPONSES = (
    Planted(
        "the density's change in excited-state forces",
        "xc/gradient.py",
        "orbitals = whole.orbitals + 2.0 * along.orbitals",
        "orbitals = whole.orbitals + along.orbitals",
        _of("excited_forces", xc=SEMILOCAL),
    ),
    Planted(
        "the overlap's part of excited-state forces",
        "response/excited_states.py",
        "P[2], 2.0 * P[1], P[0], -2.0 * P_I",
        "P[2], P[1], P[0], -2.0 * P_I",
        _of("excited_forces", xc=SMALL),
    ),
    Planted(
        "relaxation of the excited state's density",
        "response/excited_states.py",
        "half = (kappa @ kappa + self.z - s @ s) @ n",
        "half = (kappa @ kappa - s @ s) @ n",
        _of("excited_dipole", "excited_forces", xc=SMALL),
    ),
    Planted(
        "the overlap's change in the weighted density",
        "response/hessian.py",
        "return dP @ (F @ X) + P_dF @ X - (P @ F @ X) @ self.dS @ X",
        "return dP @ (F @ X) + P_dF @ X",
        _of("hessian", xc=SMALL),
    ),
    Planted(
        "the square root of two in strengths",
        "response/excitations.py",
        'weight = 0.0 if spin in ("triplet", "flip") else np.sqrt(response.scale / 2)',
        'weight = 0.0 if spin in ("triplet", "flip") else 1.0',
        _of("dynamic_polarizability", spins=False),
    ),
)
PLANTED = (*_SURROUNDINGS, *_EXCHANGE, *_ORBITALS, *_GRID, *_RESPONSES)
