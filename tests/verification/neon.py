"""Total energies of neon beside outputs of ORCA, Gaussian, Turbomole and NWChem: writes data/names/neon.csv.

The outputs stand in Psi4's repository, tests/dft-custom-*/ref_outputs and input.dat: ORCA 4.0.0.2 (GRID7, VeryTightSCF,
no RI), Gaussian 09 and 16 (99,770 points), Turbomole 7.2 (grid 7), NWChem (xfine). Run
`python -m tests.verification.neon`; one minute.
"""

import warnings

import dftfd
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
"""(program, its keyword, name here, basis set, energy there [hartree])"""


def energy(name: str, basis: str) -> float:
    atom = dftfd.molecule("Ne 0 0 0;", basis=basis)
    return dftfd.run_scf(atom, name, density_fit=False, grid_level=5, conv_tol=1e-10).energy


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for program, keyword, name, basis, there in OUTPUTS:
        here = energy(name, basis)
        rows.append((program, keyword, name, basis, f"{there:.9f}", f"{here:.9f}", f"{here - there:.1e}"))
    write(DATA / "neon.csv", ("program", "keyword", "name here", "basis", "there", "here", "difference"), rows)


if __name__ == "__main__":
    main()
