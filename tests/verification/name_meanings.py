"""What names of functionals mean here, in PySCF, libxc, Psi4 and ORCA: writes data/names/*.csv.

Each name that another program's table has is asked for here, and both are evaluated at the same random points: energy
per volume, fractions and range of exact exchange, parameters of nonlocal correlation, kind of dispersion correction.
Run `python -m tests.verification.name_meanings`; Psi4 is Debian's package, without it its table stays as it is. Of ORCA
there is the manual: what it says of a keyword is evaluated by PySCF's libxc (`orca_names.py`).
"""

import collections
import csv
import json
import re
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyscf
from pyscf.dft import libxc

from dftfd.errors import DftfdError
from dftfd.functionals import catalogue
from dftfd.functionals.aliases import COMBINATIONS, OTHER_PROGRAMS
from dftfd.functionals.empirical_dispersion import pairs
from dftfd.functionals.registry import get_functional, list_functionals
from dftfd.interop.pyscf import numint
from tests.verification import orca_names

DATA = Path(__file__).parents[2] / "data" / "names"
SAME = 1e-7
"""Largest difference of energies at the sample points, relative to the largest energy, of one functional."""
KINDS = {
    "chg": "D2 (Chai)",
    "d2": "D2",
    "d3zero": "D3 (zero)",
    "d3bj": "D3 (BJ)",
    "d3bjm": "D3M (BJ)",
    "d3zerom": "D3M (zero)",
    "d4": "D4",
    "d3bj+gcp": "D3 (BJ)",
    "d3bjatm+gcp": "D3 (BJ, ATM), gCP",
    "d4+gcp": "D4, gCP",
}
PSI4_KINDS = {
    "chg": "D2 (Chai)",
    "d2": "D2",
    "d3zero": "D3 (zero)",
    "d3bj": "D3 (BJ)",
    "d3mzero": "D3M (zero)",
    "d3mbj": "D3M (BJ)",
}


def sample() -> dict[str, np.ndarray]:
    """Spin densities, gradients (3, point) and tau of 24 points, drawn once and for all."""
    rng, n = np.random.default_rng(5), 24
    rho_a = np.exp(rng.uniform(-3, 1, n))
    rho_b = rho_a * np.exp(0.4 * rng.normal(size=n))
    found = {}
    for spin, rho in (("A", rho_a), ("B", rho_b)):
        gradient = rng.normal(size=(3, n)) * rho ** (4 / 3)
        tau = np.sum(gradient**2, axis=0) / (8 * rho) + rho ** (5 / 3) * rng.uniform(0.5, 3, n)
        found |= {f"RHO_{spin}": rho, f"grad_{spin}": gradient, f"TAU_{spin}": tau}
    return found


SAMPLE = sample()
TOTAL = SAMPLE["RHO_A"] + SAMPLE["RHO_B"]
ROWS = tuple(
    np.stack([SAMPLE[f"RHO_{s}"], *SAMPLE[f"grad_{s}"], np.zeros_like(TOTAL), SAMPLE[f"TAU_{s}"]]) for s in "AB"
)


_known: dict[str, dict] = {}
"""Meanings without dispersion, by definition."""


def ours(name: str) -> dict:
    """What the name means here."""
    functional = get_functional(name)
    corrections = functional.dispersion[0] if functional.dispersion else ""
    plain = replace(functional, dispersion=None, pt2=())
    key = json.dumps(plain.definition, sort_keys=True, default=str)
    if key not in _known:
        ni = numint(plain)
        energy = TOTAL * ni.eval_xc(None, ROWS, spin=1, deriv=0)[0] if plain.semilocal_part.terms else 0 * TOTAL
        vv10 = [float(x) for x in ni.nlc_coeff()[0][0]] if ni.is_nlc() else None
        _known[key] = {**_exchange(*ni.rsh_coeff()), "energy": np.asarray(energy), "vv10": vv10}
    return {**_known[key], "pt2": functional.pt2, "dispersion": KINDS.get(corrections, corrections)}


def pyscfs(name: str) -> dict:
    """What the name means in PySCF."""
    n_rows = {"HF": 1, "LDA": 1, "GGA": 4, "MGGA": 6}[libxc.xc_type(name)]
    rows = [row[:n_rows] if n_rows > 1 else row[0] for row in ROWS]
    energy = TOTAL * libxc.eval_xc(name, rows, spin=1, deriv=0)[0]
    vv10 = [float(x) for x in libxc.nlc_coeff(name)[0][0]] if libxc.is_nlc(name) else None
    return {**_exchange(*libxc.rsh_coeff(name)), "energy": energy, "vv10": vv10, "dispersion": ""}


def _exchange(omega, long_range, short_minus_long) -> dict:
    """PySCF's numbers as fractions of both ranges."""
    return {"short_range": long_range + short_minus_long, "long_range": long_range, "omega": omega}


def psi4s() -> tuple[str, dict[str, dict]]:
    """Psi4's version and what its names mean there."""
    gradients = {
        f"GAMMA_{a}{b}": np.sum(SAMPLE[f"grad_{a}"] * SAMPLE[f"grad_{b}"], axis=0) for a, b in ("AA", "AB", "BB")
    }
    given = {k: v.tolist() for k, v in {**SAMPLE, **gradients}.items() if not k.startswith("grad")}
    with tempfile.TemporaryDirectory() as folder:
        points, out = Path(folder) / "sample.json", Path(folder) / "out.json"
        points.write_text(json.dumps(given))
        script = Path(__file__).with_name("psi4_functionals.py")
        subprocess.run(
            ["/usr/bin/python3", str(script), str(points), str(out)],
            check=True,
            capture_output=True,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
        )
        document = json.loads(out.read_text())
    for row in document["functionals"].values():
        row["dispersion"] = PSI4_KINDS.get(row["dispersion"], row["dispersion"])
        row["energy"] = np.array(row["energy"])
    return document["version"], document["functionals"]


def differences(here: dict, there: dict) -> list[str]:
    """In what two meanings differ, in words."""
    found = []
    scale = max(np.abs(there["energy"]).max(), 1e-300)
    size = float(np.abs(here["energy"] - there["energy"]).max() / scale)
    if size > SAME:
        found.append(f"semilocal energy by {size:.1e}")
    for name, words in (("short_range", "exact exchange"), ("long_range", "long-range exact exchange")):
        if abs(here[name] - there[name]) > 1e-6:
            found.append(f"{words} {here[name]:.4g} for {there[name]:.4g}")
    separated = abs(here["short_range"] - here["long_range"]) > 1e-8
    if separated and abs(here["omega"] - there["omega"]) > 1e-8:
        found.append(f"omega {here['omega']:.4g} for {there['omega']:.4g}")
    if (here["vv10"] or None) != (there["vv10"] or None) and not np.allclose(here["vv10"] or 0, there["vv10"] or 0):
        found.append(f"VV10 {here['vv10'] or 'none'} for {there['vv10'] or 'none'}")
    shares = here["pt2"] or (0.0, 0.0)
    if any(abs(share - there.get("pt2_share", 0.0)) > 1e-8 for share in shares):
        found.append(f"perturbation theory {shares} for {there.get('pt2_share', 0.0):.4g}")
    if here["dispersion"] != there["dispersion"]:
        found.append(f"dispersion {here['dispersion'] or 'none'} for {there['dispersion'] or 'none'}")
    return found


def compared(theirs: dict[str, dict]) -> list[tuple[str, str, str]]:
    """(name, equal / different / refused, in words) of each of another program's names."""
    rows = []
    for name, there in sorted(theirs.items()):
        try:
            found = differences(ours(name), there)
        except DftfdError as error:
            rows.append((name, "refused", str(error)))
            continue
        rows.append((name, "different" if found else "equal", "; ".join(found)))
    return rows


def of_pyscf() -> list[tuple[str, str, str]]:
    """PySCF's short names: the keys of its tables that are no names of libxc."""
    theirs = {}
    for name in sorted({*libxc.XC_ALIAS, *libxc.XC_CODES}):
        if not re.match(r"(HYB_)?(LDA|GGA|MGGA)_(X|C|XC|K)_", name) and isinstance(name, str) and name.strip():
            try:
                theirs[name.lower()] = pyscfs(name)
            except NotImplementedError:  # functionals of the Laplacian, which PySCF only names
                continue
    return compared(theirs)


def of_libxc() -> list[tuple[str, str, str]]:
    """libxc's full names: our own formulas beside PySCF's libxc, others by the comparison that admits them."""
    own = set(list_functionals()) & {name.lower() for name in map(str, libxc.XC_CODES)}
    own = {name for name in own if all(term.has_energy for _, term in get_functional(name).terms)}  # not LB94
    theirs, only_named = {}, []
    for name in own:
        try:
            theirs[name] = pyscfs(name)
        except NotImplementedError:  # functionals of the Laplacian, which PySCF only names
            only_named.append(name)
    rows = [*compared(theirs), *((name, "not evaluated by PySCF", "") for name in only_named)]
    for name in set(catalogue.all_names()) - own:
        errors = catalogue.verdicts()["verified"].get(name)
        reason = catalogue.verdicts()["refused"].get(name) or "libxc 6.0, which jax-xc was made from, does not have it."
        rows.append((name, "equal", "") if errors else (name, "refused", reason))
    return sorted(rows)


def of_orca() -> list[tuple[str, str, str]]:
    """ORCA's keywords: what the manual says they consist of, evaluated by libxc."""
    theirs, rows = {}, []
    for keyword, meaning in orca_names.DOCUMENTED.items():
        if not meaning:
            try:
                get_functional(keyword)
                rows.append((keyword, "undocumented", f"here {_answer(keyword)}"))
            except DftfdError as error:
                rows.append((keyword, "refused", str(error)))
            continue
        found = ours(meaning) if "kappa" in meaning else pyscfs(meaning)
        own = {"dispersion": orca_names.CORRECTIONS.get(keyword, ""), "pt2_share": orca_names.PT2.get(keyword, 0.0)}
        theirs[keyword] = {**found, "vv10": found["vv10"] if keyword.endswith("-V") else None, **own}
    return sorted([*rows, *compared(theirs)], key=lambda row: row[0].lower())


def twins() -> list[tuple[str, str, str]]:
    """(letters and digits, names that marks alone tell apart, what the shortest form is answered with).

    Of all served names, libxc's also without their family and kind: 'x_pbe' of gga_x_pbe beside 'xpbe' of gga_xc_xpbe.
    """
    full = {*list_functionals(), *COMBINATIONS, *OTHER_PROGRAMS, *catalogue.all_names()}
    full |= {f"{base}-{version}" for base, rows in pairs().items() for version in rows}
    groups: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for name in full:
        without_family = re.sub(r"^(hyb_)?(lda|gga|mgga)_", "", name.lower())
        for short in {name.lower(), without_family, re.sub(r"^(x|c|xc|k)_", "", without_family)}:
            groups[re.sub(r"[-_]", "", short)][short].add(name)
    rows = []
    for plain, spellings in sorted(groups.items()):
        names = set().union(*spellings.values())
        if len(spellings) > 1 and len(names) > 1:
            rows.append((plain, ", ".join(sorted(names)), _answer(plain)))
    return rows


def _answer(name: str) -> str:
    try:
        functional = get_functional(name)
    except DftfdError:
        return "refused"
    terms = " + ".join(term.name for _, term in functional.terms) or "exact exchange"
    return f"{terms}, {functional.dispersion[0]}" if functional.dispersion else terms


def write(path: Path, head, rows) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


REASONS = {
    "mpw3lyp": "dftfd and PySCF: VWN V. Psi4: VWN III, `mpw3lypg` in dftfd",
    "mpw3pw": "dftfd and PySCF: VWN V. Psi4: VWN III, `mpw3pwg` in dftfd",
    "revb3lyp": "dftfd and PySCF: VWN V. Psi4: VWN III, `revb3lypg` in dftfd",
    "svwn": "dftfd and PySCF: VWN V. Psi4: VWN III, `svwn3` in dftfd",
    "tpss0": "dftfd and PySCF: TPSS with 25 % exact exchange. Psi4: 10 %, as in TPSSh",
    "vv10": "dftfd: the nonlocal part. Psi4: the whole functional, `rpw86,pbe + vv10` in dftfd",
    "wb97x-d3": "dftfd: parameters of Lin, Li, Mao and Chai (2013). Psi4: those of wB97X",
    "zlp": "dftfd: as in libxc 7. Psi4: as in libxc 4",
}
"""Why a name differs, by the name without its correction, or with it."""

PROGRAMS = (
    ("PySCF 2.14", "pyscf.csv", REASONS),
    ("libxc 7.0.0", "libxc.csv", REASONS),
    ("Psi4 1.3.2", "psi4.csv", REASONS),
    ("ORCA 6", "orca.csv", orca_names.REASONS),
)


def _reason(name: str, reasons: dict[str, str]) -> str:
    if name in reasons:
        return reasons[name]
    return next((words for start, words in reasons.items() if name.startswith(start)), "")


COUNTS = ("program", "names", "same in dftfd", "different", "refused", "not compared")


def counts() -> list[list[str]]:
    """A row for each program: its names, how many are equal, different, refused and not compared."""
    verdicts = {program: [verdict for _, verdict, _ in read(DATA / file)] for program, file, _ in PROGRAMS}
    numbers = lambda found: [found.count(word) for word in ("equal", "different", "refused")]
    table = [
        [program, len(found), *numbers(found), len(found) - sum(numbers(found))] for program, found in verdicts.items()
    ]
    return [[str(entry) for entry in row] for row in table]


def meanings() -> list[list[str]]:
    """A row for each name that differs: program, name, reason; names with a suffix differ as those without."""
    found = []
    for program, file, reasons in PROGRAMS:
        names = [name for name, verdict, _ in read(DATA / file) if verdict == "different"]
        bare = [name for name in names if not any(name.startswith((f"{start}-", f"{start}zero")) for start in names)]
        found += [[program, f"`{name}`", _reason(name, reasons)] for name in bare]
    return found


def main() -> None:
    DATA.mkdir(exist_ok=True)
    head = ("name", "verdict", "what differs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(DATA / "pyscf.csv", head, of_pyscf())
        write(DATA / "libxc.csv", head, of_libxc())
        write(DATA / "orca.csv", head, of_orca())
        if Path("/usr/bin/psi4").exists():
            write(DATA / "psi4.csv", head, compared(psi4s()[1]))
    write(DATA / "twins.csv", ("letters and digits", "names", "answer"), twins())
    write(DATA / "counts.csv", COUNTS, counts())
    write(DATA / "meanings.csv", ("program", "name", "meaning"), meanings())


if __name__ == "__main__":
    print(f"PySCF {pyscf.__version__}", file=sys.stderr)
    main()
