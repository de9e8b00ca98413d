"""Basis sets of the cases that PySCF does not ship, from the Basis Set Exchange into shells.json.

    pip install basis_set_exchange; python data/bounds/make_shells.py

B. P. Pritchard et al., J. Chem. Inf. Model. 59, 4814 (2019). doi:10.1021/acs.jcim.9b00725
"""

import json
from pathlib import Path

import basis_set_exchange

FOLDER = Path(__file__).parent


def shells(name, symbol):
    """Shells in PySCF's internal form, [[l, [exponent, coefficient, ...], ...], ...]."""
    entry = basis_set_exchange.get_basis(name, elements=[symbol], uncontract_general=False, uncontract_spdf=True)
    (element,) = entry["elements"].values()
    rows = []
    for shell in element["electron_shells"]:
        (l,) = shell["angular_momentum"]
        columns = [shell["exponents"], *shell["coefficients"]]
        rows.append([l, *([float(x) for x in row] for row in zip(*columns, strict=True))])
    return sorted(rows, key=lambda row: row[0])


def main():
    cases = json.loads((FOLDER / "cases.json").read_text())
    wanted = sorted({(b[4:], s) for c in cases for s, b in c["basis"].items() if b.startswith("bse:")})
    lines = [f'"{name} {symbol}": {json.dumps(shells(name, symbol))}' for name, symbol in wanted]
    version = basis_set_exchange.version()
    head = f'"source": "Basis Set Exchange {version}, made by data/bounds/make_shells.py"'
    (FOLDER / "shells.json").write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n")


if __name__ == "__main__":
    main()
