"""Total energies of neon beside outputs of ORCA, Gaussian, Turbomole and NWChem: writes data/names/neon.csv, and what
was tried on ORCA's wB97X-D3, wb97x_d3_checks.csv and wb97x_d3_changes.csv.

The outputs stand in Psi4's repository, tests/dft-custom-*/ref_outputs and input.dat: ORCA 4.0.0.2 (GRID7, VeryTightSCF,
no RI), Gaussian 09 and 16 (99,770 points), Turbomole 7.2 (grid 7), NWChem (xfine). Run
`python -m tests.verification.neon`; one minute.
"""

import warnings

import numpy as np

import dftfd
from dftfd.functionals.base import long_range_exchange
from tests.verification.name_meanings import DATA, write

OUTPUTS = (
    ("Gaussian 09", "SVWN", "svwn3", "cc-pvdz", -128.357941704),
    ("Turbomole 7.2", "pbe", "pbe", "cc-pvdz", -128.79305010293),
    ("ORCA 4.0", "PBE", "pbe", "cc-pvdz", -128.793068569269),
    ("Gaussian 09", "PBEPBE", "pbepbe", "cc-pvdz", -128.793027408),
    ("ORCA 4.0", "BLYP", "blyp", "cc-pvdz", -128.894855380969),
    ("ORCA 4.0", "BP86", "b88,p86 - pz + pw", "cc-pvdz", -128.905683777641),
    ("Turbomole 7.2", "b-p", "b88,p86 - pz + vwn", "cc-pvdz", -128.9092927447),
    ("Gaussian 09", "BP86", "bp86", "cc-pvdz", -128.903070321),
    ("ORCA 4.0", "PW91", "pw91", "cc-pvdz", -128.871229934635),
    ("ORCA 4.0", "mPWPW", "mpwpw", "cc-pvdz", -128.893378250504),
    ("NWChem", "bop", "bop", "cc-pvdz", -128.892404778404),
    ("Gaussian 09", "iop(3/74=809)", "pw86pbe", "cc-pvdz", -128.946484366),
    ("Gaussian 09", "SOGGA11", "sogga11", "cc-pvdz", -128.889273547),
    ("ORCA 4.0", "TPSS", "tpss", "cc-pvdz", -128.910940991792),
    ("Gaussian 09", "revTPSSrevTPSS", "revtpss", "cc-pvdz", -128.854622168),
    ("ORCA 4.0", "revTPSS", "revtpss", "cc-pvdz", -128.850163295495),
    ("Gaussian 09", "M06L", "m06l", "cc-pvdz", -128.903194900),
    ("Gaussian 09", "M11L", "m11_l", "cc-pvdz", -128.873042062),
    ("Gaussian 09", "MN12L", "mn12_l", "cc-pvdz", -128.869792717),
    ("Gaussian 16", "MN15L", "mn15l", "cc-pvdz", -128.826859054),
    ("ORCA 4.0", "PW6B95", "pw6b95", "cc-pvdz", -129.039641602003),
    ("ORCA 4.0", "PBE0", "pbe0", "cc-pvdz", -128.805110236279),
    ("Gaussian 09", "wB97XD", "wb97x-d", "cc-pvdz", -128.887480845),
    ("ORCA 4.0", "wB97X-D3", "wb97x-d3", "cc-pvdz", -128.887347888283),
    ("Gaussian 09", "SOGGA11X", "sogga11_x", "cc-pvdz", -128.876075275),
    ("Gaussian 16", "MN15", "mn15", "cc-pvdz", -128.825480424),
    ("ORCA 4.0", "LC-BLYP", "lc-blyp", "cc-pvdz", -128.696932537618),
    ("ORCA 4.0", "B2PLYP", "b2plyp", "cc-pvtz", -128.911145626722),
)
"""(program, its keyword, name in dftfd, basis set, its energy [hartree])"""


WATER = "O -0.0016647187 -0.1178128121 0; H -0.7519557213 0.4764218633 0; H 0.7652734708 0.4660806338 0"
Q_CHEM = {"wb97x": -76.3633308351, "wb97x-d": -76.3625422648, "wb97x-d3": -76.3631809917}
"""Energies [hartree] of WATER [angstrom] in 6-31G by Q-Chem 4.4 (200 x 590 points), qchem_water_data.tar of
tests/pytests/data_dft-bench in Psi4's repository."""
ORCA = (-128.887347888, -31.059974, -1.540094, -0.637527, -182.60121083)
"""ORCA's wB97X-D3 of neon: energy, orbital energies of 1s, 2s and 2p, one-electron energy [hartree]."""
MOVED = 1e-4


def solved(functional, basis: str, atoms: str = "Ne 0 0 0;", level: int = 5):
    molecule = dftfd.molecule(atoms, basis=basis)
    return dftfd.run_scf(molecule, functional, density_fit=False, grid_level=level, conv_tol=1e-10)


def energy(name: str, basis: str) -> float:
    return solved(name, basis).energy


def beside_orca(functional) -> np.ndarray:
    """What a functional differs by from ORCA, in the order of `ORCA`."""
    found = solved(functional, "cc-pvdz", level=4)
    return np.array([found.energy, *found.mo_energy[0][:3], found.energies["one_electron"]]) - ORCA


def single_changes():
    """(what is changed, by how much so that the energy is ORCA's, what else then still differs)."""
    given = dftfd.get_functional("hyb_gga_xc_wb97x_d3")
    local, ((_, short), (omega, long)) = given.semilocal_part, given.exact_exchange
    hybrid = lambda a, b, w: local + a * dftfd.exact_exchange + b * long_range_exchange(w)
    as_is = beside_orca(given)
    yield "nothing", 0.0, as_is
    changed = {
        "exact exchange": hybrid(short + MOVED, long, omega),
        "long-range exact exchange": hybrid(short, long + MOVED, omega),
        "omega of exact exchange": hybrid(short, long, omega + MOVED),
    }
    for name in ("c_x", "c_ss", "c_ab"):
        numbers = given.parameters[name]
        for k, number in enumerate(numbers):
            others = (*numbers[:k], number + MOVED, *numbers[k + 1 :])
            changed[f"{name}, {k}"] = given.with_parameters(**{name: others})
    for what, functional in changed.items():
        slope = (beside_orca(functional) - as_is) / MOVED
        by = -as_is[0] / slope[0]
        yield what, by, as_is + by * slope


def rounded(exact: float) -> float:
    """PBE with the digits that ORCA prints and a fraction of exact exchange, in cc-pVDZ."""
    x = dftfd.get_functional("gga_x_pbe").with_parameters(mu=0.21952)
    c = dftfd.get_functional("gga_c_pbe").with_parameters(beta=0.066725)
    return solved((1 - exact) * x + exact * dftfd.exact_exchange + c if exact else x + c, "cc-pvdz").energy


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for program, keyword, name, basis, there in OUTPUTS:
        here = energy(name, basis)
        rows.append((program, keyword, name, basis, f"{there:.9f}", f"{here:.9f}", f"{here - there:.1e}"))
    there = {(program, keyword): E for program, keyword, *_, E in OUTPUTS}
    checks = [(f"water, {name}, Q-Chem 4.4", solved(name, "6-31g", WATER).energy - E) for name, E in Q_CHEM.items()]
    for keyword, exact in (("PBE", 0.0), ("PBE0", 0.25)):
        words = f"neon, {keyword} with mu = 0.21952, beta = 0.066725, ORCA 4.0"
        checks.append((words, rounded(exact) - there["ORCA 4.0", keyword]))
    write(DATA / "wb97x_d3_checks.csv", ("what", "difference"), [(what, f"{d:.1e}") for what, d in checks])
    columns = ("changed", "by", "energy", "1s", "2s", "2p", "one-electron energy")
    changes = [(what, f"{by:.1e}", *(f"{d:.1e}" for d in rest)) for what, by, rest in single_changes()]
    write(DATA / "wb97x_d3_changes.csv", columns, changes)
    write(
        DATA / "neon.csv",
        ("program", "keyword", "name in dftfd", "basis", "program [hartree]", "dftfd [hartree]", "difference"),
        rows,
    )


if __name__ == "__main__":
    main()
