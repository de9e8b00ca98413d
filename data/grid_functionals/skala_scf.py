"""Self-consistent Skala on fifty-odd hard and ordinary systems, smallest first; rows are added to skala_scf.json.

    python data/grid_functionals/skala_scf.py [seconds]

Systems: each nuclear frame, charge and spin of data/reference/scf_cases.json and hard_scf_cases.json once, and those
below. Default settings of run_scf but grid level 1 and def2-SVP. No system is begun when the seconds of processor time
are used; what is there already is kept, so that pieces add up.
"""

import json
import pathlib
import sys
import time
import warnings

import dftfd

OUT = pathlib.Path(__file__).with_suffix(".json")
REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
ORDINARY = {
    "lih": ("Li 0 0 0; H 0 0 1.595", 0, 0),
    "lif": ("Li 0 0 0; F 0 0 1.564", 0, 0),
    "li2": ("Li 0 0 0; Li 0 0 2.673", 0, 0),
    "beh2": ("Be 0 0 0; H 0 0 1.326; H 0 0 -1.326", 0, 0),
    "bh3": ("B 0 0 0; H 0 1.19 0; H 1.0306 -0.595 0; H -1.0306 -0.595 0", 0, 0),
    "hf": ("F 0 0 0; H 0 0 0.917", 0, 0),
    "nh3": ("N 0 0 0.12; H 0 0.94 -0.27; H 0.814 -0.47 -0.27; H -0.814 -0.47 -0.27", 0, 0),
    "nh4+": ("N 0 0 0; H 0.59 0.59 0.59; H -0.59 -0.59 0.59; H -0.59 0.59 -0.59; H 0.59 -0.59 -0.59", 1, 0),
    "oh-": ("O 0 0 0; H 0 0 0.964", -1, 0),
    "co": ("C 0 0 0; O 0 0 1.128", 0, 0),
    "hcn": ("H 0 0 -1.065; C 0 0 0; N 0 0 1.153", 0, 0),
    "c2h2": ("C 0 0 0.6013; C 0 0 -0.6013; H 0 0 1.6628; H 0 0 -1.6628", 0, 0),
    "h2co": ("C 0 0 -0.5296; O 0 0 0.6741; H 0 0.9364 -1.1116; H 0 -0.9364 -1.1116", 0, 0),
    "f2": ("F 0 0 0; F 0 0 1.412", 0, 0),
    "no": ("N 0 0 0; O 0 0 1.151", 0, 1),
    "cn": ("C 0 0 0; N 0 0 1.172", 0, 1),
    "nh2": ("N 0 0 0.14; H 0 0.8 -0.5; H 0 -0.8 -0.5", 0, 1),
    "ch3": ("C 0 0 0; H 0 1.08 0; H 0.9353 -0.54 0; H -0.9353 -0.54 0", 0, 1),
    "n_atom": ("N 0 0 0;", 0, 3),
    "o_atom": ("O 0 0 0;", 0, 2),
    "c_atom": ("C 0 0 0;", 0, 2),
    "li_atom": ("Li 0 0 0;", 0, 1),
    "na_atom": ("Na 0 0 0;", 0, 1),
    "hcl": ("Cl 0 0 0; H 0 0 1.275", 0, 0),
    "h2s": ("S 0 0 0.103; H 0 0.962 -0.824; H 0 -0.962 -0.824", 0, 0),
    "c2h4": (
        "C 0 0 0.6665; C 0 0 -0.6665; H 0 0.9229 1.2379; H 0 -0.9229 1.2379; H 0 0.9229 -1.2379; H 0 -0.9229 -1.2379",
        0,
        0,
    ),
}
"""Atoms [angstrom], charge, unpaired electrons."""


def systems():
    """(id, kind, molecule), each frame once."""
    found = {}
    for kind in ("scf_cases", "hard_scf_cases"):
        for case in json.loads((REFERENCE / f"{kind}.json").read_text(encoding="utf-8"))["cases"]:
            given = case["input"]
            if given.get("fractional_occ") or given.get("ecp") or "occupations" in given:
                continue
            atoms = "; ".join(" ".join(map(str, atom)) for atom in given["atoms"]) + ";"
            one = (atoms, given["charge"], given["spin"], given["unit"])
            found.setdefault(one, (case["id"], "hard" if kind.startswith("hard") else "ordinary"))
    for name, (atoms, charge, spin) in ORDINARY.items():
        found.setdefault((atoms, charge, spin, "angstrom"), (name, "ordinary"))
    for (atoms, charge, spin, unit), (name, kind) in found.items():
        yield name, kind, lambda a=atoms, u=unit, q=charge, s=spin: molecule_of(a, u, q, s)


def molecule_of(atoms, unit, charge, spin):
    with warnings.catch_warnings(action="ignore"):
        return dftfd.molecule(atoms, unit=unit, basis="def2-svp", charge=charge, spin=spin, allow_close=True)


def row_of(name, kind, molecule):
    start = time.process_time()
    row = {"id": name, "category": kind, "atoms": molecule.n_atoms, "electrons": molecule.n_electrons}
    row |= {"charge": molecule.charge, "spin": molecule.spin}
    try:
        with warnings.catch_warnings(action="ignore"):
            result = dftfd.run_scf(molecule, "skala", grid_level=1)
        row |= {"converged": bool(result.converged), "cycles": result.cycles, "energy": result.energy}
    except dftfd.DftfdError as error:
        row |= {"converged": False, "error": f"{type(error).__name__}: {error}"}
    return row | {"processor_seconds": round(time.process_time() - start, 1)}


def main():
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    rows = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else []
    done, wanted = {row["id"] for row in rows}, []
    for name, kind, make in systems():
        if name in done:
            continue
        try:
            wanted.append((name, kind, make()))
        except dftfd.DftfdError as error:
            print(name, error)
    for name, kind, molecule in sorted(wanted, key=lambda w: (w[2].n_electrons * w[2].n_atoms, w[0])):
        if time.process_time() > limit:
            print(f"{name} and what is larger is left")
            return
        rows.append(row_of(name, kind, molecule))
        print(rows[-1], flush=True)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
