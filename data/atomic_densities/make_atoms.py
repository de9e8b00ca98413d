"""Make dftfd/verify/koga_atoms.json: python data/atomic_densities/make_atoms.py PATH

PATH: a copy of https://github.com/JFurness1/AtomicOrbitals.

Hartree-Fock orbitals of the atoms up to krypton whose densities are spherical, closed and half-closed shells, expanded
in Slater functions. T. Koga, K. Kanayama, T. Watanabe, A. J. Thakkar, Int. J. Quantum Chem. 71, 491 (1999),
doi:10.1002/(SICI)1097-461X(1999)71:6<491::AID-QUA6>3.0.CO;2-T. The repository is in the public domain (CC0).
"""

import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parents[2] / "dftfd" / "verify" / "koga_atoms.json"
HALF_CLOSED = {
    "H": "1S", "He": "", "Li": "2S", "Be": "", "N": "2P", "Ne": "", "Na": "3S", "Mg": "", "P": "3P", "Ar": "",
    "K": "4S", "Ca": "", "Cr": "4S 3D", "Mn": "3D", "Cu": "4S", "Zn": "", "As": "4P", "Kr": "",
}  # fmt: skip
"""Atoms, and their shells of one spin."""


def shells(text, half_closed):
    """The kinetic energy that a file states, and its shells: l, n, zeta, orbitals with occupation by spin."""
    lines = [line for line in text.splitlines() if line.strip()]
    kinetic = float(re.search(r"T =\s+(\S+)", text)[1])
    found = []
    for line in lines[4:]:
        words = line.split()
        if words[0] in "SPDF":
            found.append({"l": "SPDF".index(words[0]), "n": [], "zeta": [], "labels": words[1:], "rows": []})
        elif not words[0].startswith(("BASIS", "CUSP")):
            block = found[-1]
            block["n"].append(int(words[0][:-1]))
            block["zeta"].append(float(words[1]))
            block["rows"].append([float(word) for word in words[2:]])
    return kinetic, [finished(block, half_closed) for block in found]


def finished(block, half_closed):
    full = 2 * block["l"] + 1
    orbitals = [
        {
            "label": label,
            "occupation": [full, 0 if label in half_closed else full],
            "coefficients": [r[k] for r in block["rows"]],
        }
        for k, label in enumerate(block["labels"])
    ]
    return {"l": block["l"], "n": block["n"], "zeta": block["zeta"], "orbitals": orbitals}


def main(path):
    atoms = {}
    for symbol, half in HALF_CLOSED.items():
        text = (Path(path) / "literature_data/k99l/neutral" / symbol.lower()).read_text()
        kinetic, found = shells(text, half.split())
        atoms[symbol] = {"kinetic_energy": kinetic, "shells": found}
    rows = ",\n".join(f" {json.dumps(symbol)}: {json.dumps(atom)}" for symbol, atom in atoms.items())
    source = __doc__.split("\n\n")[2].replace("\n", " ")
    OUT.write_text(f'{{"source": {json.dumps(source)},\n"atoms": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
