"""Energies that the makers of D3 and D4 publish in their tests: data/dispersion/published.json.

    python data/dispersion/published.py SIMPLE_DFTD3 DFTD4 MSTORE

Source trees of simple-dftd3 1.7.0 and dftd4 4.3.1 (test/unit/test_param.f90 and test_gcp.f90,
python/dftd4/test_interface.py) and of mstore, which has the structures: MB16-43 (doi:10.1021/ct800511q, bohr) and UPU23
(doi:10.1021/acs.jctc.5b00296).
Only names of functionals that dispersion_pairs.json has are kept. The tests of D3M(BJ) without three-body term are left
out: they evaluate D3(BJ) there.
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PAIRS = json.loads((FOLDER.parents[1] / "functionals" / "dispersion_pairs.json").read_text())
TESTS = {
    "test_d3bj_mb01": "d3bj",
    "test_d3zero_mb09": "d3zero",
    "test_d3bjatm_mb17": "d3bjatm",
    "test_d3zeroatm_mb25": "d3zeroatm",
    "test_d3bjmatm_mb04": "d3bjmatm",
    "test_d3zerom_mb03": "d3zerom",
    "test_d3zeromatm_mb05": "d3zeromatm",
    "test_d3op_mb06": "d3op",
    "test_d3opatm_mb07": "d3opatm",
    "test_rational_damping": "d4",
}
"""{test: version}"""
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[Ee][-+]?\d+)?(?=_wp)")


def plain(name):
    return re.sub(r"[-_()]", "", name)


def subroutines(text):
    return {m[1]: m[2] for m in re.finditer(r"\nsubroutine (\w+)\(.*?\)\n(.*?)\nend subroutine \1", text, re.S)}


def structure(store, collection, record):
    file, name = {"MB16-43": ("mb16_43", "mindless{}"), "UPU23": ("upu23", "upu{}")}[collection]
    text = subroutines((store / f"src/mstore/{file}.f90").read_text())[name.format(record)]
    symbols = re.findall(r'"(\w+)"', text)
    values = [float(x) for x in NUMBER.findall(text)]
    rows = [values[i : i + 3] for i in range(0, 3 * len(symbols), 3)]
    assert len(values) - 3 * len(symbols) == text.count("charge = "), record
    charge = round(values[-1]) if "charge = " in text else 0
    return {"symbols": symbols, "positions": rows, "charge": charge}


def of_tests(text, store, made):
    for test, body in subroutines(text).items():
        if test not in TESTS:
            continue
        names, energies = re.search(r"func\(\*\) = (.*?\])\s.*?ref\(\*\) = (.*?)\]", body, re.S).groups()
        names = re.findall(r'"([^"]+)"', names)
        energies = [float(x) for x in NUMBER.findall(energies)]
        assert len(names) <= len(energies), test  # dftd4's list ends with an energy of no name
        where = re.search(r'get_structure\(mol, "(.+?)", "(.+?)"\)', body).groups()
        made["structures"]["/".join(where)] = structure(store, *where)
        used = {plain(row["parameters"]) for rows in PAIRS.values() for row in rows.values()}
        values = {plain(n): e for n, e in zip(names, energies, strict=False) if plain(n) in used}
        values.pop("r2scan3c", None)  # evaluated with the D4 model of other functionals there
        made["energies"].append({"version": TESTS[test], "structure": "/".join(where), "values": values})


def of_gcp(text, store, made):
    """test/unit/test_gcp.f90: the last energy of each test is that of the whole correction."""
    for test, body in subroutines(text).items():
        if test in ("test_hf3c", "test_pbeh3c", "test_b973c", "test_r2scan3c"):
            where = re.search(r'get_structure\(mol, "(.+?)", "(.+?)"\)', body).groups()
            made["structures"]["/".join(where)] = structure(store, *where)
            energy = float(re.findall(r"check\(error, energy, (\S+)_wp", body)[-1])
            values = {test.removeprefix("test_"): energy}
            made["energies"].append({"version": "gcp", "structure": "/".join(where), "values": values})


def main(simple_dftd3, dftd4, mstore):
    made = {"structures": {}, "energies": []}
    for tree in (simple_dftd3, dftd4):
        of_tests((tree / "test/unit/test_param.f90").read_text(), mstore, made)
    of_gcp((simple_dftd3 / "test/unit/test_gcp.f90").read_text(), mstore, made)
    text = re.search(r"def test_r2scan3c.*?(?=\ndef )", (dftd4 / "python/dftd4/test_interface.py").read_text(), re.S)[0]
    numbers = [int(x) for x in re.findall(r"\n +(\d+),", text)]
    rows = [[float(x) for x in row.split(",")] for row in re.findall(r"\n +\[([^\[\]]+)\],", text)]
    made["structures"]["r2scan-3c"] = {"symbols": numbers, "positions": rows, "charge": 0}
    energy = float(re.search(r"== (-\d\S+)", text)[1])
    made["energies"].append({"version": "d4", "structure": "r2scan-3c", "values": {"r2scan3c": energy}})
    (FOLDER / "published.json").write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
