"""Energies and core-seconds of large molecules beside those that gpu4pyscf's developers published for Q-Chem and PySCF.

    python examples/benchmarks/published_times.py --molecule vitamin_c --xc pbe --gradient
    python examples/benchmarks/published_times.py --molecule taxol --xc b3lyp --basis def2-svp --save
    python examples/benchmarks/published_times.py --table           the table of docs/performance.md from kept rows

Their settings: 99 shells of 590 directions, pruned as in PySCF, J (and K) fitted in def2-universal-jkfit, energies to
1e-9 hartree. Q-Chem fits in RIJK-def2-tzvp, and its grid is pruned otherwise. Their times are of other processors:
Q-Chem's are wall times of 32 cores, here multiplied by 32.
"""

import argparse
import csv
import json

import measuring
from molecules import READ, geometry

import dftfd
from dftfd.model.forces import nuclear_forces

SHELLS, DIRECTIONS, FIT = 99, 590, "def2-universal-jkfit"


def published(row) -> list[dict]:
    """Rows of data/benchmarks/gpu4pyscf.csv for the calculation of a row."""
    calculation = row["molecule"], row["xc"], row["basis"]
    with open(measuring.DATA / "gpu4pyscf.csv") as file:
        rows = list(csv.DictReader(file))
    return [other for other in rows if (other["molecule"], other["xc"], other["basis"]) == calculation]


def measure(molecule, xc, basis, gradient) -> dict:
    """Energy, wall and processor seconds of SCF and gradient."""
    mole = dftfd.molecule(geometry(molecule, basis))
    warm = dftfd.run_scf(dftfd.molecule(geometry("water", basis)), xc, auxiliary_basis=FIT)
    if gradient:
        nuclear_forces(warm)
    seconds = {}

    def timed(name, call):
        wall, (processor, found) = measuring.seconds(lambda: measuring.seconds(call, measuring.CLOCKS["cpu"]))
        seconds[name] = {"wall": round(wall, 2), "processor": round(processor, 2)}
        return found

    def scf():
        grid = dftfd.molecular_grid(mole.atomic_numbers, mole.coordinates, n_radial=SHELLS, n_angular=DIRECTIONS)
        return dftfd.run_scf(mole, xc, grid=grid, auxiliary_basis=FIT, conv_tol=1e-9, progress=True)

    result = timed("scf", scf)
    if gradient:
        timed("gradient", lambda: nuclear_forces(result))
    row = {"molecule": molecule, "atoms": mole.n_atoms, "ao": mole.n_ao, "xc": xc, "basis": basis}
    return row | {"energy": float(result.energy), "seconds": seconds, "peak_gigabytes": measuring.peak_gigabytes()}


def report(row) -> str:
    """A line for dftfd and for each published row."""
    of = lambda part: row["seconds"].get(part, {}).get("processor")
    name = f"{row['molecule']} ({row['atoms']} atoms, {row['ao']} functions) {row['xc']}/{row['basis']}"
    lines = [f"{name}: {row['energy']:.9f} hartree, wall {row['seconds']['scf']['wall']} s, {row['peak_gigabytes']} GB"]
    lines.append(f"    core-seconds of dftfd: SCF {of('scf')}, gradient {of('gradient')}")
    for other in published(row):
        error = row["energy"] - float(other["energy [hartree]"])
        cores = int(other["cores"] or 0)
        used = ", ".join(f"{part} {float(other[f'{part} [s]']):.0f} s" for part in ("scf", "gradient"))
        core_seconds = f", core-seconds of the SCF {cores * float(other['scf [s]']):.0f}" if cores else ""
        lines.append(f"    {other['program']:16s} dE {error:+.1e}; {used}{core_seconds}")
    return "\n".join(lines)


def table(rows) -> list[dict]:
    """What docs/performance.md shows of kept rows, the last of each calculation."""
    found = {}
    for row in rows:
        others = {other["program"]: other for other in published(row)}
        same, qchem = others.get("PySCF") or others["gpu4pyscf, A100"], others["Q-Chem"]
        ours = row["seconds"]["scf"]["wall"]
        name = f"{row['molecule'].replace('_', ' ')}, {row['atoms']} atoms"
        found[name, row["xc"], row["basis"]] = {
            "Molecule": name,
            "Functional, basis": f"{row['xc'].upper()}/{row['basis']}",
            "dftfd, wall": f"{ours:,.0f} s",
            "core-seconds": f"{row['threads']['dftfd'] * ours:,.0f}",
            "of Q-Chem": f"{int(qchem['cores']) * float(qchem['scf [s]']):,.0f}",
            "Energy - PySCF's": f"{row['energy'] - float(same['energy [hartree]']):+.0e}",
            "Energy - Q-Chem's": f"{row['energy'] - float(qchem['energy [hartree]']):+.0e}",
        }
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=READ, default="vitamin_c")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-tzvpp")
    parser.add_argument("--gradient", action="store_true", help="time the gradient, too")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/published_times.json")
    parser.add_argument("--table", action="store_true", help="write the table of kept rows, measure nothing")
    options = parser.parse_args()
    if options.table:
        rows = table(json.loads((measuring.DATA / "published_times.json").read_text()))
        with open(measuring.DATA / "published_times.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return
    row = measure(options.molecule, options.xc, options.basis, options.gradient)
    print(report(row), flush=True)
    if options.save:
        measuring.keep("published_times", [measuring.machine() | row])


if __name__ == "__main__":
    main()
