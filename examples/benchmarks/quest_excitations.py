"""Twenty vertical excitations of QUEST with PBE0 and CAM-B3LYP, and their errors.

    git clone https://github.com/pfloos/QUESTDB
    python examples/benchmarks/quest_excitations.py QUESTDB [MINUTES]

computes what is not yet in data/benchmarks/quest_excitations.json, for so many minutes, and prints a table. Geometries
[angstrom] and best estimates [eV, aug-cc-pVTZ] are read from the database, whose licence is CC BY-SA 4.0; rows hold
the estimates and what came out. A state is the lowest of its spin whose amplitudes have its symmetry.

P.-F. Loos et al., J. Chem. Theory Comput. 21, 8010 (2025). doi:10.1021/acs.jctc.5c00975
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import dftfd
from dftfd.errors import UnsupportedError
from dftfd.response.excitations import HARTREE_IN_EV
from dftfd.xc.density import gaussian_basis

ROWS = Path(__file__).parents[2] / "data" / "benchmarks" / "quest_excitations.json"
FUNCTIONALS = ("pbe0", "camb3lyp")
BASIS = "aug-cc-pvtz"
N_ROOTS = 5
X, Y, Z, AXIS, CENTRE = (-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, 1), (-1, -1, -1)

STATES = [  # file, geometry, QUEST's label of the state, its sign under reflections, a half turn about z, inversion
    ("Water", "water", "^1B_1", {X: -1, Y: 1}),
    ("Water", "water", "^3B_1", {X: -1, Y: 1}),
    ("Ammonia", "ammonia", "^1A_1", {Z: 1}),
    ("Ammonia", "ammonia", "^3A_1", {Z: 1}),
    ("Carbon_monoxide", "carbon_monoxide", r"^1\Pi", {AXIS: -1}),
    ("Carbon_monoxide", "carbon_monoxide", r"^3\Pi", {AXIS: -1}),
    ("Dinitrogen", "dinitrogen", r"^1\Pi_g", {AXIS: -1, CENTRE: 1}),
    ("Dinitrogen", "dinitrogen", r"^3\Sigma_u^+", {AXIS: 1, CENTRE: -1, X: 1}),
    ("Formaldehyde", "formaldehyde_1", "^1A_2", {X: -1, Y: -1}),
    ("Formaldehyde", "formaldehyde_1", "^3A_2", {X: -1, Y: -1}),
    ("Ethylene", "ethylene", "^1B_{3u}", {X: -1, Y: 1, Z: 1}),
    ("Ethylene", "ethylene", "^3B_{1u}", {X: 1, Y: -1, Z: 1}),
    ("HCN", "HCN", r"^1\Sigma^-", {AXIS: 1, X: -1}),
    ("HCN", "HCN", r"^3\Sigma^+", {AXIS: 1, X: 1}),
    ("Hydrogen_sulfide", "hydrogen_sulfide", "^1A_2", {X: -1, Y: -1}),
    ("Hydrogen_sulfide", "hydrogen_sulfide", "^3A_2", {X: -1, Y: -1}),
    ("Nitroxyl", "nitroxyl", "^1A''", {Y: -1}),
    ("Nitroxyl", "nitroxyl", "^3A''", {Y: -1}),
    ("Methanimine", "methanimine", "^1A''", {Y: -1}),
    ("Methanimine", "methanimine", "^3A''", {Y: -1}),
]


def best_estimate(folder, file, state):
    """TBE/AVTZ [eV] of the lowest state of this label."""
    entries = json.loads((folder / "data" / "json" / "MAIN" / f"{file}.json").read_text())
    return min(entry["TBE/AVTZ"] for entry in entries if entry["State"].strip() == state)


def signs(molecule, excitations, root):
    """(a triple of signs of x, y, z) -> the sign of the amplitudes X(r, r') under it; about 0 where it is none."""
    basis, rng = gaussian_basis(molecule), np.random.default_rng(1)
    points = rng.normal(size=(2, 200, 3)) * 1.5

    def values(operation):
        ao = [np.asarray(basis.evaluate(p * operation, 0)[0]) for p in points]
        hole, particle = excitations.occupied[0].T @ ao[0], excitations.virtual[0].T @ ao[1]
        return np.einsum("ip,ia,ap->p", hole, excitations.X[0][root], particle, optimize=True)

    there = values((1, 1, 1))
    return lambda operation: float(there @ values(operation) / (there @ there))


def lowest_of(molecule, excitations, wanted):
    """Number of the lowest root with the signs that a state has."""
    for root in range(len(excitations)):
        sign = signs(molecule, excitations, root)
        if all(abs(sign(operation) - expected) < 0.1 for operation, expected in wanted.items()):
            return root
    raise ValueError("no root has the symmetry of the state")


def of_state(molecule, found, wanted):
    """What there is to say of the lowest root with a state's signs."""
    root = lowest_of(molecule, found, wanted)
    return {
        "energy": round(float(found.energies[root]) * HARTREE_IN_EV, 4),
        "strength": round(float(found.oscillator_strengths[root]), 4),
        "character": found.characters[root],
        "converged": bool(found.converged[root]),
    }


def compute(folder, geometry, xc):
    """Rows of one molecule and functional."""
    start = time.process_time()
    molecule = dftfd.molecule(str(folder / "geometries" / "xyz" / f"{geometry}.xyz"), basis=BASIS)
    result = dftfd.run_scf(molecule, xc)
    rows = []
    for spin, tda in ((s, t) for s in ("singlet", "triplet") for t in (False, True)):
        try:
            found = result.excitations(N_ROOTS, tda, spin)
        except UnsupportedError:  # an unstable ground state: full response has no real energies, TDA has
            found = None
        for file, place, state, wanted in STATES:
            if place == geometry and state[1] == {"singlet": "1", "triplet": "3"}[spin]:
                row = {"molecule": file, "state": state, "best_estimate": best_estimate(folder, file, state)}
                row |= {"functional": xc, "basis": BASIS, "tda": tda}
                rows.append(row | ({"energy": None} if found is None else of_state(molecule, found, wanted)))
    for row in rows:
        row["processor_seconds"] = round(time.process_time() - start, 1)
    return rows


def table(rows):
    """Mean signed, mean absolute and root mean square errors [eV]."""
    print(f"\n{'functional':<12}{'method':<8}{'states':<11}{'n':>3}{'mean':>8}{'mean |.|':>10}{'rms':>8}")
    for xc in FUNCTIONALS:
        for tda in (False, True):
            for kind, letters in (("singlets", "1"), ("triplets", "3"), ("all", "13")):
                chosen = [r for r in rows if (r["functional"], r["tda"]) == (xc, tda) and r["state"][1] in letters]
                e = np.array([r["energy"] - r["best_estimate"] for r in chosen if r["energy"] is not None])
                if len(e):
                    figures = f"{e.mean():8.2f}{np.abs(e).mean():10.2f}{np.sqrt((e**2).mean()):8.2f}"
                    print(f"{xc:<12}{'TDA' if tda else 'full':<8}{kind:<11}{len(e):3d}{figures}")


def main(folder, minutes=9.0):
    """Compute what is missing, and say what there is."""
    rows, begin = json.loads(ROWS.read_text()) if ROWS.exists() else [], time.monotonic()
    done = {(row["molecule"], row["functional"]) for row in rows}
    geometries = {file: place for file, place, *_ in STATES}
    for xc in FUNCTIONALS:
        for file, place in geometries.items():
            if (file, xc) not in done and time.monotonic() - begin < 60 * minutes:
                rows += compute(folder, place, xc)
                ROWS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
                print(f"{file} {xc}: {rows[-1]['processor_seconds']} s", flush=True)
    for row in rows:
        if not row["tda"]:
            energy = "unstable" if row["energy"] is None else f"{row['energy']:8.2f}"
            print(
                f"{row['molecule']:<18}{row['state']:<14}{row['functional']:<10}{row['best_estimate']:8.2f}{energy:>9}"
            )
    table(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:3]))
