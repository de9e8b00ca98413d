"""Fifty small molecules of GSCDB with Q-Chem's total energies: writes selection.json beside this file.

    python data/gscdb/make_selection.py CLONE

CLONE: a checkout of https://github.com/JiashuLiang/GSCDB; openpyxl has to be installed. One molecule for each sum
formula, charge and multiplicity among those of at most four atoms and 24 electrons in def2-QZVPPD, drawn by a seed.
"""

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

import openpyxl
from pyscf.data.elements import charge as atomic_number

COLUMNS = {"b3lyp": "B3LYP", "pbe0": "PBE0", "camb3lyp": "CAMB3LYP", "wb97x-v": "wB97X-V"}
COUNT, SEED, ATOMS, ELECTRONS = 50, 137, 4, 24


def energies(clone):
    """{molecule: {functional: hartree}}"""
    rows = openpyxl.load_workbook(clone / "Analysis/Molecule_Energies.xlsx", read_only=True)["hybrid_energies"]
    header, *rest = rows.iter_rows(values_only=True)
    place = {ours: header.index(theirs) for ours, theirs in COLUMNS.items()}
    return {row[0]: {xc: row[k] for xc, k in place.items()} for row in rest if row[0]}


def geometry(text):
    """(charge, multiplicity, [[symbol, x, y, z in angstrom], ...]) of a Q-Chem input."""
    first, *lines = re.search(r"\$molecule\s*\n(.*?)\$end", text, re.S)[1].strip().splitlines()
    charge, multiplicity = map(int, first.split())
    return charge, multiplicity, [[s, *map(float, xyz)] for s, *xyz in map(str.split, lines)]


def main(clone):
    kinds = {}
    for name, known in sorted(energies(clone).items()):
        path = clone / "qchem_inputs" / f"{name}.in"
        text = path.read_text() if path.exists() else ""
        plain = re.search(r"basis\s+def2-qzvppd\s", text, re.I) and "multipole" not in text.lower()
        if not plain or None in known.values():
            continue
        charge, multiplicity, atoms = geometry(text)
        electrons = sum(atomic_number(a[0]) for a in atoms) - charge
        if len(atoms) <= ATOMS and electrons <= ELECTRONS:
            formula = tuple(sorted(Counter(a[0] for a in atoms).items()))
            entry = {"name": name, "charge": charge, "spin": multiplicity - 1, "atoms": atoms, "energies": known}
            kinds.setdefault((formula, charge, multiplicity), []).append(entry)
    draw = random.Random(SEED)
    chosen = draw.sample(sorted(kinds), min(COUNT, len(kinds)))
    molecules = [draw.choice(kinds[kind]) for kind in sorted(chosen)]
    lines = ",\n".join(json.dumps(m) for m in molecules)
    (Path(__file__).parent / "selection.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(molecules)} of {len(kinds)} kinds")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
