"""Lowest states of transition metals and other open shells: what the default finds, and what finds the lowest.

    python data/reference/make_ground_states.py [--only pyscf hard fast auto] [--xc b3lyp pbe] [NAME ...]

Each row of ground_states.json holds the energies [hartree] of

    pyscf   PySCF's DIIS from its default guess, second order where that fails, then up to three times downhill along an
            internal instability
    hard    run_scf(convergence="hard")
    fast    run_scf(convergence="fast"), DIIS alone
    auto    run_scf as it is by default, which looks for lower states

in def2-SVP with fitted integrals and grids of level 3, and for the last two of most what they took: Fock matrices on
the full and on the coarse grid. A row that is there is not computed again. The summary counts how often each ends
within SAME of the lowest.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

from pyscf import dft, gto

import dftfd
from dftfd.xc.matrix import XCBuilder

FILE = Path(__file__).with_name("ground_states.json")
SAME = 2e-4  # hartree: what the orientation of a d hole on the grid may change, and more
HOWS = ("pyscf", "hard", "fast", "auto")


def diatomic(a, b, distance):
    return f"{a} 0 0 0; {b} 0 0 {distance}"


def atoms(symbols, charge, spins):
    sign = "+" if charge else ""
    return {f"{s}{sign}": (f"{s} 0 0 0;", charge, spin) for s, spin in zip(symbols.split(), spins, strict=True)}


SPECIES = {
    **atoms("Sc Ti V Cr Mn Fe Co Ni Cu Zn", 0, (1, 2, 3, 6, 5, 4, 3, 2, 1, 0)),
    **atoms("Ti V Cr Fe Co Ni", 1, (3, 4, 5, 5, 2, 1)),
    "ScO": (diatomic("Sc", "O", 1.668), 0, 1),
    "TiO": (diatomic("Ti", "O", 1.620), 0, 2),
    "VO": (diatomic("V", "O", 1.589), 0, 3),
    "CrO": (diatomic("Cr", "O", 1.615), 0, 4),
    "MnO": (diatomic("Mn", "O", 1.646), 0, 5),
    "FeO": (diatomic("Fe", "O", 1.616), 0, 4),
    "CoO": (diatomic("Co", "O", 1.629), 0, 3),
    "NiO": (diatomic("Ni", "O", 1.627), 0, 2),
    "CuO": (diatomic("Cu", "O", 1.724), 0, 1),
    "FeO+": (diatomic("Fe", "O", 1.641), 1, 5),
    "MnH": (diatomic("Mn", "H", 1.731), 0, 6),
    "FeH": (diatomic("Fe", "H", 1.606), 0, 3),
    "CoH": (diatomic("Co", "H", 1.513), 0, 2),
    "NiH": (diatomic("Ni", "H", 1.476), 0, 1),
    "CuF": (diatomic("Cu", "F", 1.745), 0, 0),
    "Cr2": (diatomic("Cr", "Cr", 1.679), 0, 0),
    "NiCO": ("Ni 0 0 0; C 0 0 1.67; O 0 0 2.82", 0, 0),
    "FeCO": ("Fe 0 0 0; C 0 0 1.73; O 0 0 2.89", 0, 2),
    "FeCl2": ("Fe 0 0 0; Cl 0 0 2.151; Cl 0 0 -2.151", 0, 4),
    "CuCl2": ("Cu 0 0 0; Cl 0 0 2.035; Cl 0 0 -2.035", 0, 1),
    "TiCl4": (
        "Ti 0 0 0; Cl 1.253 1.253 1.253; Cl 1.253 -1.253 -1.253; Cl -1.253 1.253 -1.253; Cl -1.253 -1.253 1.253",
        0,
        0,
    ),
    "Fe(H2O)2+": ("Fe 0 0 0; O 0 0 1.95; H 0.79 0 2.52; H -0.79 0 2.52", 2, 4),
    # Radicals, triplets, stretched bonds and metals other than those that the default was made for
    "NO2": ("N 0 0 0; O 0 1.10 0.47; O 0 -1.10 0.47", 0, 1),
    "CN": ("C 0 0 0; N 0 0 1.172", 0, 1),
    "C2": ("C 0 0 0; C 0 0 1.31", 0, 2),
    "BN": ("B 0 0 0; N 0 0 1.33", 0, 2),
    "N2": ("N 0 0 0; N 0 0 1.9", 0, 2),
    "SO": ("S 0 0 0; O 0 0 2.2", 0, 2),
    "ClO3": ("Cl 0 0 0; O 0 1.42 0.35; O 1.2298 -0.71 0.35; O -1.2298 -0.71 0.35", 0, 1),
    "VH": ("V 0 0 0; H 0 0 1.72", 0, 4),
    "TiH": ("Ti 0 0 0; H 0 0 1.78", 0, 3),
    "CrF": ("Cr 0 0 0; F 0 0 1.78", 0, 5),
    "FeF": ("Fe 0 0 0; F 0 0 1.78", 0, 5),
    "FeN": ("Fe 0 0 0; N 0 0 1.57", 0, 3),
    "MoO": ("Mo 0 0 0; O 0 0 1.7", 0, 4),
    "PdH": ("Pd 0 0 0; H 0 0 1.53", 0, 1),
    "NbO": ("Nb 0 0 0; O 0 0 1.69", 0, 3),
}


def ours(name, xc, convergence):
    """A row of run_scf: its energy, and the Fock matrices it took."""
    geometry, charge, spin = SPECIES[name]
    molecule = dftfd.molecule(geometry, basis="def2-svp", charge=charge, spin=spin)
    points, build = [], XCBuilder.build
    XCBuilder.build = lambda builder, *given: points.append(builder.store.n_points) or build(builder, *given)
    start = time.time()
    try:
        result = dftfd.run_scf(molecule, xc, convergence=convergence, allow_unconverged=True)
    finally:
        XCBuilder.build = build
    full = points.count(max(points))
    row = {"energy": round(result.energy, 7), "converged": result.converged, "s_squared": round(result.s_squared, 4)}
    row |= {"full": full, "coarse": len(points) - full, "seconds": round(time.time() - start, 2)}
    return row | {"steps": "; ".join(result.steps)}


def pyscf(name, xc):
    """A row of PySCF, with the instabilities that it followed."""
    geometry, charge, spin = SPECIES[name]
    mole = gto.M(atom=geometry, basis="def2-svp", ecp="def2-svp", charge=charge, spin=spin, verbose=0)
    mf = (dft.UKS if spin else dft.RKS)(mole, xc=xc).density_fit()
    mf.grids.level, mf.conv_tol, mf.max_cycle = 3, 1e-9, 60
    energies = [mf.kernel()]
    for _ in range(3):
        if not mf.converged:
            newton = mf.newton()
            newton.kernel(mf.mo_coeff, mf.mo_occ)
            mf.mo_coeff, mf.mo_occ, mf.e_tot, mf.converged = (
                *(newton.mo_coeff, newton.mo_occ),
                *(newton.e_tot, newton.converged),
            )
            energies.append(newton.e_tot)
        mo_coeff, _, stable, _ = mf.stability(return_status=True)
        if stable:
            break
        energies.append(mf.kernel(mf.make_rdm1(mo_coeff, mf.mo_occ)))
    energies = [float(energy) for energy in energies]
    return {"energy": round(min(energies), 7), "converged": bool(mf.converged), "path": [round(e, 5) for e in energies]}


def summary(rows):
    """How often each way ends within SAME of the lowest energy known."""
    counts = {}
    for row in rows.values():
        known = {how: row[how]["energy"] for how in HOWS if how in row and row[how]["converged"]}
        for how, energy in known.items():
            lowest = energy <= min(known.values()) + SAME
            counts.setdefault(how, [0, 0])[0] += lowest
            counts[how][1] += 1
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=HOWS)
    parser.add_argument("--xc", nargs="+", default=("b3lyp", "pbe"))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for name in given.names or SPECIES:
        for xc in given.xc:
            for how in given.only:
                rows = json.loads(FILE.read_text())["rows"] if FILE.exists() else {}
                row = rows.setdefault(f"{name} {xc}", {})
                if how not in row:
                    row[how] = pyscf(name, xc) if how == "pyscf" else ours(name, xc, how)
                    print(name, xc, how, row[how], flush=True)
                    content = {"lowest, of": summary(rows), "species": SPECIES, "rows": rows}
                    FILE.write_text(json.dumps(content, indent=1) + "\n")
