"""Random molecules, most of them nonsense to a chemist: does every SCF end well, and in a state that PySCF agrees with?

    python examples/faults/random_molecules.py --save        500 molecules

Two to eight atoms from hydrogen to chlorine at least 0.3 angstrom apart, random charge, spin and functional. Both codes
start from the same density, with the same grid points and exact integrals: ours as it is by default, PySCF with its
default DIIS. Where both converge to energies that differ, the states are analysed: an unstable one is no solution.
"""

import json
import time
import warnings

import numpy as np
from common import report
from pyscf import dft

import dftfd
from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputWarning
from dftfd.interop.pyscf import to_pyscf

ELEMENTS = ["H"] * 5 + ["C", "N", "O"] * 2 + ["He", "Li", "Be", "B", "F", "Na", "Mg", "Al", "Si", "P", "S", "Cl"]
FUNCTIONALS = ("lda,vwn", "pbe", "b3lyp")
BASIS, LEVEL = "6-31g", 0
CLOSEST = 0.3  # angstrom
SAME_ENERGY = 1e-6  # hartree
UNSTABLE = -1e-4  # hartree


def random_input(rng):
    """(atoms, charge, spin, functional): atoms one after the other in a ball that grows with their number."""
    symbols = rng.choice(ELEMENTS, size=rng.integers(2, 9))
    radius, positions = 0.9 * len(symbols) ** (1 / 3), []
    while len(positions) < len(symbols):
        new = rng.uniform(-radius, radius, size=3)
        if np.linalg.norm(new) <= radius and all(np.linalg.norm(new - old) >= CLOSEST for old in positions):
            positions.append(new)
    atoms = [(str(symbol), tuple(map(float, xyz))) for symbol, xyz in zip(symbols, positions, strict=True)]
    n_electrons = sum(ATOMIC_NUMBERS[symbol] for symbol in symbols)
    charge = int(rng.integers(-1, 2)) if n_electrons > 2 else 0
    spin = (n_electrons - charge) % 2 + 2 * int(rng.random() < 0.3)
    return atoms, charge, min(spin, n_electrons - charge), str(rng.choice(FUNCTIONALS))


def solutions(atoms, charge, spin, xc):
    """(our result, PySCF's mean field) from the same density."""
    molecule = dftfd.molecule(atoms, basis=BASIS, charge=charge, spin=spin, allow_close=True)
    ours = dftfd.run_scf(molecule, xc, grid_level=LEVEL, density_fit=False)
    mole = to_pyscf(molecule)
    mf = (dft.UKS if spin else dft.RKS)(mole, xc=xc)
    mf.grids.level, mf.verbose = LEVEL, 0
    mf.kernel(mf.get_init_guess(key="minao"))
    return ours, mf


def stable(result):
    """Whether the lowest eigenvalue within the method is not negative."""
    value = result.stability().internal
    return value is None or value > UNSTABLE


def verdict(ours, mf):
    """One word on a pair of runs."""
    if not ours.converged or not mf.converged:
        return {(True, False): "ours alone", (False, True): "PySCF's alone"}.get((ours.converged, mf.converged), "none")
    difference = ours.energy - mf.e_tot
    if abs(difference) <= SAME_ENERGY:
        return "same"
    if difference < 0:
        return "lower"
    theirs = dftfd.run_scf(
        ours.molecule,
        ours.calculation.functional,
        grid_level=LEVEL,
        density_fit=False,
        guess=np.reshape(mf.make_rdm1(), ours.density_matrix.shape),
        convergence="diis",
    )
    assert abs(theirs.energy - mf.e_tot) < SAME_ENERGY
    return "higher, PySCF's is unstable" if stable(ours) and not stable(theirs) else "higher"


def random_molecules(runs, folder, rng):
    """Figures of `runs` molecules; every one that ends otherwise than PySCF's is listed."""
    counts, listed, start = {}, [], time.time()
    for k, own_rng in enumerate(rng.spawn(runs)):
        atoms, charge, spin, xc = given = random_input(own_rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # close atoms, electrons that a coarse grid does not find
            ours, mf = solutions(*given)
            word = verdict(ours, mf)
        assert np.isfinite(ours.energy)
        counts[word] = counts.get(word, 0) + 1
        if word != "same":
            energies = {"ours [hartree]": ours.energy, "PySCF's [hartree]": mf.e_tot}
            geometry = "; ".join(f"{symbol} {x:.9f} {y:.9f} {z:.9f}" for symbol, (x, y, z) in atoms)
            system = {"geometry [angstrom]": geometry, "charge": charge, "spin": spin, "xc": xc}
            listed.append({"number": k, "verdict": word, **energies, "steps": "; ".join(ours.steps), **system})
            print(json.dumps(listed[-1]), flush=True)
        if (k + 1) % 10 == 0:
            print(f"{k + 1} of {runs} molecules, {time.time() - start:.0f} s: {counts}", flush=True)
    both = sum(n for word, n in counts.items() if word not in ("ours alone", "PySCF's alone", "none"))
    return {
        "molecules": runs,
        "converged, ours and PySCF's": [both + counts.get("ours alone", 0), both + counts.get("PySCF's alone", 0)],
        "verdicts": counts,
        "listed": listed,
    }


if __name__ == "__main__":
    report("random_molecules", random_molecules, 500)
