"""The table of functionals and the corrections that were fitted to them: functionals/dispersion_pairs.json.

    pip install dftd3 dftd4
    python data/dispersion/make.py

Numbers of D3 and D4 and their papers are simple-dftd3's and dftd4's own (parameters.toml in the packages dftd3 1.7.0
and dftd4 4.3.1, LGPL-3.0; numbers of papers). What belongs together is written here: under each name the functional
that the parameters were fitted for, since one name of theirs may stand for two functionals (wb97x).
"""

import json
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dftfd.functionals.empirical_dispersion import DISPUTED

OUT = Path(__file__).parents[2] / "functionals" / "dispersion_pairs.json"

SAME = (
    *("pbe", "blyp", "bpbe", "revpbe", "rpbe", "pbesol", "olyp", "opbe", "pw91", "tpss", "revtpss", "scan", "rscan"),
    *("r2scan", "r2scanh", "r2scan0", "r2scan50", "hf", "b3lyp", "pbe0", "tpssh", "tpss0", "b3pw91", "b1lyp", "b1b95"),
    *("revpbe0", "revpbe38", "x3lyp", "o3lyp", "xlyp", "bop", "camb3lyp", "lcwpbe", "hse03", "hse06", "pw6b95"),
    *("pwb6k", "mpwb1k", "mpw1b95", "mpw1lyp", "bmk", "b97_1", "b97_2", "hcth120", "hcth407", "m05", "m06"),
    *("m06_l", "m11", "m11_l", "mn12_l", "mn12_sx", "mn15", "mn15_l", "n12", "n12_sx", "sogga11_x", "m08_hx"),
    *("revtpssh", "pkzb", "b2plyp", "wb97", "hse12", "hse12s", "cam_qtp_01", "lc_blyp", "rpw86pbe", "tauhcth"),
    *("tpss1kcis", "pbe1kcis", "mpw1kcis", "mpwkcis1k", "ms2", "ms2h", "am05", "hsesol", "lh07t_svwn"),
)
"""Names of functionals here that are theirs but for underscores."""

OTHER = {
    "bp86": ("bp86", "bp"),
    "bhandhlyp": ("bhandhlyp", "bhlyp"),
    "m05_2x": ("m05_2x", "m052x"),
    "m06_2x": ("m06_2x", "m062x"),
    "mpw1pw": ("mpw1pw", "mpw1pw"),
    "b97d": ("gga_xc_b97_d", "b97d"),
    "sb98_2c": ("hyb_gga_xc_sb98_2c", "b98"),
    "revdsd_pbep86": ("revdsd_pbep86", "revdsdpbep86"),
    "mpwpw": ("mpw91,pw91", "mpwpw"),
    "cf22d": ("cf22d,cf22d", "cf22d"),
}
"""{name: (functional here, their name)}"""

REFITTED = {
    ("revdsd_pbep86", "d3bj"): "0.69*hf + 0.31*pbe, 0.4296*p86 + 0.5785*pt2_os + 0.0799*pt2_ss",
}
"""Functionals whose other coefficients were fitted with a correction; those of the name itself belong to D4."""

WITHOUT_VV10 = {"wb97x": "wb97x-v", "wb97m": "wb97m-v", "b97m": "b97m-v"}
VERSIONS = {"bj": "d3bj", "zero": "d3zero", "bjm": "d3bjm", "zerom": "d3zerom", "op": "d3op"}
D2, SCHWABE, CHG = "10.1002/jcc.20495", "10.1039/b704725h", "10.1039/b810189b"
S6 = {"pbe": 0.75, "blyp": 1.2, "bp86": 1.05, "tpss": 1.0, "b3lyp": 1.05, "b97d": 1.25, "b2plyp": 0.55}
"""Scale factors of Grimme's paper of 2006, and of T. Schwabe, S. Grimme (2007) for B2PLYP."""

PBEH = "0.42*hf + 0.58*gga_x_pbe(kappa=1.0245, mu=0.12345679012345678), gga_c_pbe(beta=0.03)"
COMPOSITE = {
    "pbeh": (PBEH, "d3bjatm+gcp", "pbeh3c", "10.1063/1.4927476", "def2-mSVP"),
    "b97": ("gga_xc_b97_3c", "d3bjatm+gcp", "b973c", "10.1063/1.5012601", "def2-mTZVP"),
    "r2scan": ("r2scan", "d4+gcp", "r2scan-3c", "10.1063/5.0040021", "def2-mTZVPP"),
    "wb97x": ("wb97x-v", "d4", "wb97x-3c", "10.1063/5.0133026", "vDZP"),
    "hf": ("hf", "d3bj+gcp", "hf3c", "10.1002/jcc.23317", "MINIX"),
}


OWN_D4_MODEL = {"r2scan-3c": {"ga": 2.0, "gc": 1.0}}
"""Charge scaling (doi:10.1063/5.0040021, sec. II C; dftd4's app/driver.f90), which parameters.toml does not have."""
MISPRINTS = {("opbe", "zero"): {"s8": 2.055}, ("cf22d", "zero"): {"s8": 0.0}}
"""Where parameters.toml is not what dftd3.f and simple-dftd3's param.f90 have: BPBE's s8 for OPBE, none for CF22D."""


NUMBERS = np.array([8, 1, 1, 8, 1, 1, 6, 1, 1, 1, 1])
POSITIONS = np.array(
    [[-2.85, -0.05, 0.0], [-1.05, 0.0, 0.0], [-3.4, 1.65, 0.0], [2.65, 0.0, 0.0], [3.3, 1.0, 1.45], [3.3, 1.0, -1.45]]
    + [[0.0, 5.5, 0.3], [0.0, 7.5, 0.3], [1.9, 4.8, 0.3], [-1.0, 4.8, 1.9], [-1.0, 4.8, -1.4]]
)  # bohr


def plain(name):
    return name.replace("_", "").replace("-", "")


def parameters(package):
    folder = Path(find_spec(package).origin).parent
    return tomllib.loads((folder / "parameters.toml").read_text())["parameter"]


def numbers(entry):
    return {key: value for key, value in entry.items() if isinstance(value, float)}


def main():
    d3, d4 = parameters("dftd3"), parameters("dftd4")
    d3_names = {plain(name): name for name in d3}
    rows: dict[str, dict] = {}

    def enter(name, version, functional, theirs, doi, **more):
        row = {"functional": functional, "parameters": theirs, "doi": doi, **more}
        rows.setdefault(name, {})[version] = {key: value for key, value in row.items() if value is not None}

    def enter_d4(name, functional, theirs, version="d4", **more):
        entry = d4.get(theirs, {}).get("d4", {}).get("bj-eeq-atm")
        if entry:
            enter(name, version, functional, theirs, entry.get("doi"), numbers=numbers(entry), **more)

    for name, (functional, theirs) in ({name: (name, plain(name)) for name in SAME} | OTHER).items():
        known = d3.get(d3_names.get(plain(theirs)), {}).get("d3", {})
        for damping, version in VERSIONS.items():
            if damping in known and (name, version) not in DISPUTED:
                entry = known[damping]
                found = numbers(entry) | MISPRINTS.get((theirs, damping), {})
                of_version = REFITTED.get((name, version), functional)
                enter(name, version, of_version, plain(theirs), entry.get("doi"), numbers=found)
        enter_d4(name, functional, theirs)
    for name, functional in WITHOUT_VV10.items():
        entry = d3[name]["d3"]["bj"]
        doi = entry.get("doi", "10.1021/acs.jctc.8b00842")
        enter(name, "d3bj", functional, name, doi, without_vv10=True, numbers=numbers(entry))
        enter_d4(name, functional, name, without_vv10=True)
        enter_d4(name, functional, f"{name}-rev", "d4rev", corrections="d4", without_vv10=True)
    entry = d3["wb97x"]["d3"]["zero"]
    for version in ("d3zero", "d3"):  # a name of its own, of which there is one damping
        more = {"corrections": "d3zero", "numbers": numbers(entry)}
        enter("wb97x", version, "hyb_gga_xc_wb97x_d3", "wb97x", entry["doi"], **more)
    enter("wb97x", "d2", "hyb_gga_xc_wb97x_d", "wb97x", CHG, corrections="chg", numbers={"s6": 1.0, "a": 6.0})
    entry = d3["skala-1.0"]["d3"]["bj"]
    enter("skala", "d3bj", "skala", "b3lyp", entry["doi"], numbers=numbers(entry))  # B3LYP's numbers
    enter_d4("b3pw91", "b3pw91", "b3pw")
    enter_d4("wb97x_2008", "wb97x", "wb97x-2008")
    for name, s6 in S6.items():
        functional = OTHER.get(name, (name,))[0]
        doi = SCHWABE if name == "b2plyp" else D2
        enter(name, "d2", functional, name, doi, numbers={"s6": s6, "d": 20.0})
    for name, (functional, corrections, theirs, doi, basis) in COMPOSITE.items():
        found = d4[theirs]["d4"]["bj-eeq-atm"] if "d4" in corrections else d3[theirs]["d3"]["bj"]
        more = {"corrections": corrections, "basis": basis, "numbers": numbers(found) | OWN_D4_MODEL.get(theirs, {})}
        enter(name, "3c", functional, theirs, doi, without_vv10=True if name == "wb97x" else None, **more)
    rows["b97"] |= {version: row for version, row in rows["b97d"].items() if version.startswith(("d2", "d3"))}
    line = lambda name: (
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(version)}: {json.dumps(row, sort_keys=True)}" for version, row in sorted(rows[name].items())
        )
    )
    OUT.write_text("{\n" + "\n },\n".join(map(line, sorted(rows))) + "\n }\n}\n")
    check()


def check():
    """Each row's numbers give the energy that the makers' programs give for the name: methane, two water molecules."""
    from dftd3 import interface as d3
    from dftd4 import interface as d4

    damping = {
        "d3bj": d3.RationalDampingParam,
        "d3zero": d3.ZeroDampingParam,
        "d3bjm": d3.ModifiedRationalDampingParam,
        "d3zerom": d3.ModifiedZeroDampingParam,
        "d3op": d3.OptimizedPowerDampingParam,
    }
    n_equal = 0
    for version, row in (item for rows in json.loads(OUT.read_text()).values() for item in rows.items()):
        values, theirs = dict(row["numbers"]), row["parameters"]
        for part in row.get("corrections", version).split("+"):
            if part.startswith("d4"):
                scaling = {key: values.pop(key) for key in ("ga", "gc") if key in values}
                model = d4.DispersionModel(NUMBERS, POSITIONS, **scaling)
                by_name = d4.DampingParam(method=theirs)  # with s9 = 1, also for r2SCAN-3c
                by_numbers = d4.DampingParam(**values | {"s9": 1.0})
            elif part.startswith("d3"):
                model, kind = d3.DispersionModel(NUMBERS, POSITIONS), damping[part.removesuffix("atm")]
                by_name, by_numbers = kind(method=theirs, atm=False), kind(**values | {"s9": 0.0})
            else:
                continue
            one, other = (model.get_dispersion(p, grad=False)["energy"] for p in (by_name, by_numbers))
            assert abs(one - other) < 1e-13, (version, row, one, other)
            n_equal += 1
    print(f"{n_equal} corrections: numbers and names have one energy")


if __name__ == "__main__":
    main()
