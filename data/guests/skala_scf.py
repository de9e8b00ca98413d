"""Self-consistent Skala on a list of hard and ordinary systems, smallest first; rows are added to skala_scf.json.

    python data/guests/skala_scf.py LIST.json [seconds]

LIST.json holds cases {"id", "category", "input": {"atoms_bohr", "charge", "spin_2S"}}. Default settings of run_scf but
grid level 1 and def2-SVP. Ends when the seconds of processor time are used; what is there already is kept.
"""

import json
import pathlib
import sys
import time
import warnings

import dftfd

OUT = pathlib.Path(__file__).with_suffix(".json")


def systems(path):
    """Each nuclear frame, charge and spin once, by the number of electrons and atoms."""
    found = {}
    for case in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["share"]:
        given = case.get("input", {})
        if "atoms_bohr" not in given or given.get("fractional_occ") or given.get("ecp"):
            continue
        atoms = tuple((s, *map(float, x)) for s, *x in given["atoms_bohr"])
        key = tuple((s, *(round(v, 4) for v in x)) for s, *x in atoms), given["charge"], given["spin_2S"]
        found.setdefault(key, (case["id"], case["category"], atoms, given["charge"], given["spin_2S"]))
    return found.values()


def main():
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")
    rows = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else []
    done, molecules = {row["id"] for row in rows}, []
    for name, category, atoms, charge, spin in systems(sys.argv[1]):
        try:
            text = "; ".join(f"{s} {x} {y} {z}" for s, x, y, z in atoms) + ";"
            with warnings.catch_warnings(action="ignore"):
                molecule = dftfd.molecule(text, unit="bohr", basis="def2-svp", charge=charge, spin=spin)
        except dftfd.DftfdError as error:
            print(name, error)
            continue
        molecules.append((molecule.n_electrons, molecule, name, category))
    for electrons, molecule, name, category in sorted(molecules, key=lambda m: (m[0] * m[1].n_atoms, m[2])):
        if name in done or time.process_time() > limit:
            continue
        start = time.process_time()
        row = {"id": name, "category": category, "atoms": molecule.n_atoms, "electrons": electrons}
        row |= {"charge": molecule.charge, "spin": molecule.spin}
        try:
            with warnings.catch_warnings(action="ignore"):
                result = dftfd.run_scf(molecule, "skala", grid_level=1)
            row |= {"converged": bool(result.converged), "cycles": result.cycles, "energy": result.energy}
        except dftfd.DftfdError as error:
            row |= {"converged": False, "error": f"{type(error).__name__}: {error}"}
        rows.append(row | {"processor_seconds": round(time.process_time() - start, 1)})
        print(rows[-1], flush=True)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
