"""Exact exchange summed over the grid less that of integrals over both electrons; writes exchange_sums.json.

    python data/local_hybrids/exchange_sums.py [lih]

Ten molecules, Hartree-Fock densities of PySCF in def2-SVP, grid levels 0 to 7 [hartree]. For methane, whose error at
level 3 is the largest, also level 3 with more shells, more directions or without pruning, and turned; for LiH, whose
error stays from level 5 on, level 5 likewise (lih: these alone).
"""

import json
import pathlib
import sys

import numpy as np
from pyscf import scf
from pyscf.dft import numint
from scipy.spatial.transform import Rotation

import dftfd
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.three_centre import PairPotentials

OUT = pathlib.Path(__file__).with_suffix(".json")
MOLECULES = {
    "H2": ("H 0 0 0; H 0 0 0.74", 0),
    "LiH": ("Li 0 0 0; H 0 0 1.6", 0),
    "HF": ("F 0 0 0; H 0 0 0.92", 0),
    "H2O": ("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", 0),
    "OH": ("O 0 0 0; H 0 0 0.97", 1),
    "NH3": ("N 0 0 0.12; H 0 0.94 -0.27; H 0.814 -0.47 -0.27; H -0.814 -0.47 -0.27", 0),
    "N2": ("N 0 0 0; N 0 0 1.1", 0),
    "CO": ("C 0 0 0; O 0 0 1.13", 0),
    "H2CO": ("C 0 0 -0.53; O 0 0 0.68; H 0 0.94 -1.11; H 0 -0.94 -1.11", 0),
    "CH4": ("C 0 0 0; H 0.63 0.63 0.63; H -0.63 -0.63 0.63; H -0.63 0.63 -0.63; H 0.63 -0.63 -0.63", 0),
}
LEVELS = range(8)
METHANE = {
    "as it is": {},
    "without pruning": {"pruning": None},
    "C 434 directions": {"n_angular": (434, 302, 302, 302, 302)},
    "C 590 directions": {"n_angular": (590, 302, 302, 302, 302)},
    "H 434 directions": {"n_angular": (302, 434, 434, 434, 434)},
    "H 590 directions": {"n_angular": (302, 590, 590, 590, 590)},
    "all 590 directions": {"n_angular": 590},
    "all 100 shells": {"n_radial": 100},
}

LIH = {
    "as it is": {},
    "200 shells": {"n_radial": 200},
    "without pruning": {"pruning": None},
    "without pruning, 974 directions": {"pruning": None, "n_angular": 974},
    "without pruning, 974 directions, 200 shells": {"pruning": None, "n_angular": 974, "n_radial": 200},
}


class ExactExchange:
    """Of one converged density, from integrals and summed over a grid."""

    def __init__(self, atoms, spin):
        self.molecule = dftfd.molecule(atoms, basis="def2-svp", spin=spin)
        self._mole = to_pyscf(self.molecule)
        method = (scf.UHF if spin else scf.RHF)(self._mole)
        method.conv_tol = 1e-12
        method.kernel()
        P = method.make_rdm1()
        self._P = P if spin else np.stack([P / 2, P / 2])
        self.of_integrals = -0.5 * float(np.einsum("smn,snm->", method.get_k(dm=self._P), self._P))

    def error(self, level, **schemes):
        """Sum over the grid less that of integrals [hartree], and number of points."""
        molecule, total = self.molecule, 0.0
        grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level, **schemes)
        points, weights = np.asarray(grid.points), np.asarray(grid.weights)
        counting = np.abs(weights) > 1e-15
        points, weights = points[counting], weights[counting]
        potentials = PairPotentials(molecule)
        for start in range(0, len(weights), 4000):
            r, w = points[start : start + 4000], weights[start : start + 4000]
            X = np.einsum("smn,pn->smp", self._P, numint.eval_ao(self._mole, r))
            total += -0.5 * float(np.einsum("p,smp,smp->", w, X, potentials(r, X)))
        return total - self.of_integrals, len(weights)


def turned(atoms, seed):
    """A molecule in a random orientation."""
    R = Rotation.random(random_state=seed).as_matrix()
    split = [atom.split() for atom in atoms.split(";")]
    rows = [f"{symbol} {' '.join(map(str, R @ np.array(x, float)))}" for symbol, *x in split]
    return ExactExchange("; ".join(rows), 0)


def lithium_hydride():
    exchange, found = ExactExchange(*MOLECULES["LiH"]), {}
    for what, schemes in LIH.items():
        error, points = exchange.error(5, **schemes)
        found[what] = {"error": error, "points": points}
        print(what, error, points, flush=True)
    return {"LiH at level 5": found}


def main():
    if sys.argv[1:] == ["lih"]:
        kept = json.loads(OUT.read_text(encoding="utf-8")) | lithium_hydride()
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return
    kept = {"levels": {}, "methane at level 3": {}}
    for name, (atoms, spin) in MOLECULES.items():
        exchange = ExactExchange(atoms, spin)
        kept["levels"][name] = [exchange.error(level)[0] for level in LEVELS]
        print(name, *(f"{e:.1e}" for e in kept["levels"][name]), flush=True)
        if name == "CH4":
            for what, schemes in METHANE.items():
                error, points = exchange.error(3, **schemes)
                kept["methane at level 3"][what] = {"error": error, "points": points}
                print(what, error, points, flush=True)
            kept["methane at level 3, turned"] = [turned(atoms, seed).error(3)[0] for seed in range(4)]
    OUT.write_text(json.dumps(kept | lithium_hydride(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
