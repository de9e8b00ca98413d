"""Names that another version of dftfd took for other functionals: writes data/names/changed.csv.

    git worktree add OLD COMMIT
    python -m tests.verification.changed_names OLD

All names (registered ones, libxc's with and without prefixes, PySCF's, Psi4's and ORCA's, suffixes of corrections, each
with dashes, underscores and without marks) are asked for in both trees, each in a process of its own.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.verification.name_meanings import DATA, read, write

ROOT = Path(__file__).parents[2]
MEANING = """
import difflib, importlib.metadata, json, sys
importlib.metadata.entry_points = lambda **k: ()  # neither plug-ins nor proposals are asked for, wherever they are
difflib.get_close_matches = lambda *a, **k: []
sys.path.insert(0, sys.argv[1])
from dftfd.errors import DftfdError
from dftfd.functionals import registry
found = {}
for name in json.load(open(sys.argv[2])):
    try:
        f = registry.get_functional(name)
    except DftfdError:
        found[name] = None
        continue
    terms, exact = {}, {}
    for c, term in f.terms:
        terms[term.name.removeprefix("libxc:")] = round(terms.get(term.name.removeprefix("libxc:"), 0) + float(c), 9)
    for omega, c in f.exact_exchange:
        exact[str(float(omega))] = round(exact.get(str(float(omega)), 0) + float(c), 9)
    found[name] = [sorted(terms.items()), sorted(exact.items()), [float(x) for x in f.pt2], f.dispersion]
json.dump(found, open(sys.argv[3], "w"))
"""
SAME_NUMBERS = {"b3pw91": "b3pw", "bhandhlyp": "bhlyp", "bp86": "bp"}
"""Names of one set of parameters in simple-dftd3 and dftd4."""


def names() -> list[str]:
    from dftfd.functionals import catalogue
    from dftfd.functionals.aliases import COMBINATIONS, OTHER_PROGRAMS
    from dftfd.functionals.empirical_dispersion import VERSIONS, pairs
    from dftfd.functionals.registry import list_functionals

    known = {*list_functionals(), *COMBINATIONS, *OTHER_PROGRAMS, *pairs()}
    for name in catalogue.all_names():
        short = re.sub(r"^(hyb_)?(lda|gga|mgga)_", "", name)
        known |= {name, catalogue.PREFIX + name, short, re.sub(r"^(x|c|xc|k)_", "", short)}
    for file in ("pyscf.csv", "psi4.csv", "orca.csv"):
        known |= {row[0].lower() for row in read(DATA / file)}
    known |= {f"{base}-{version}" for base in pairs() for version in (*VERSIONS, "d", "d3")}
    known |= {name.replace("-", "_") for name in known}
    known |= {name.replace("_", "") for name in known} | {name.replace("-", "") for name in known}
    return sorted(known | {name.replace("_", "-") for name in known})


def meanings(tree: Path, asked: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "names.json", Path(folder) / "out.json"
        given.write_text(json.dumps(asked))
        subprocess.run([sys.executable, "-P", "-c", MEANING, str(tree), str(given), str(out)], check=True, cwd=folder)
        return json.loads(out.read_text())


def _plain(meaning):
    *functional, correction = meaning
    return [*functional, correction and [correction[0], SAME_NUMBERS.get(correction[1], correction[1])]]


def main(old: str) -> None:
    asked = names()
    before, now = meanings(Path(old).resolve(), asked), meanings(ROOT, asked)
    both = [name for name in asked if before[name] and now[name]]
    changed = [name for name in both if _plain(before[name]) != _plain(now[name])]
    rows = [(name, json.dumps(before[name]), json.dumps(now[name])) for name in changed]
    write(DATA / "changed.csv", ("name", "before", "now"), rows)
    taken = sum(map(bool, before.values())), sum(map(bool, now.values()))
    print(f"{len(asked)} names: {taken[0]} taken before, {taken[1]} now, {len(both)} by both; {len(changed)} changed")


if __name__ == "__main__":
    main(*sys.argv[1:])
