"""E_xc of all-electron atoms and molecules in steep basis sets, and whole SCFs, by dftfd and by PySCF.

    python data/bounds/make_cases.py [PART OF AN ID ...] [--scf]      rows are added to comparison.json, or replaced

Same density: PySCF's superposition of minimal atoms, on dftfd's points, LDA, PBE and r2SCAN; PySCF with its screening
of small orbital values off. SCF: PBE on the same points, with the same exact integrals up to EXACT basis functions, and
with dftfd's auxiliary functions in both codes above; spin-free exact two-component Hamiltonian where the case says so.
"""

import argparse
import json
import time
from pathlib import Path

from pyscf import __version__, dft, scf

import dftfd
from dftfd.functionals.registry import get_functional
from dftfd.interop.pyscf import to_pyscf
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.on_grid import quadrature_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

FOLDER = Path(__file__).parent
FUNCTIONALS = {"lda": "lda,vwn", "pbe": "pbe,pbe", "r2scan": "r2scan,r2scan"}
EXACT = 130
LEVEL = 3


def molecule_of(case):
    """The dftfd Molecule of a case; shells of the Basis Set Exchange come from shells.json."""
    shells = json.loads((FOLDER / "shells.json").read_text())
    basis = {s: shells[f"{name[4:]} {s}"] if name.startswith("bse:") else name for s, name in case["basis"].items()}
    return dftfd.molecule([(symbol, xyz) for symbol, *xyz in case["atoms"]], charge=case["charge"], basis=basis)


def grid_of(molecule):
    """dftfd's points and weights as PySCF's grid, every value of every orbital kept."""
    grids = dft.Grids(to_pyscf(molecule))
    grids.coords, grids.weights = quadrature_grid(molecule, LEVEL)
    grids.non0tab, grids.cutoff = None, 1e-40
    return grids


def energy_differences(molecule, name, P):
    """E_xc of PySCF [hartree], that of dftfd less it, and the electrons on the grid less those of dftfd."""
    grids = grid_of(molecule)
    n_pyscf, reference, _ = dft.numint.NumInt().nr_rks(grids.mol, grids, FUNCTIONALS[name], P)
    kernel = shared(XCKernel, get_functional(FUNCTIONALS[name]), 1)
    store = AOStore(molecule, grids.coords, grids.weights, ao_order(kernel))
    found = XCBuilder(kernel, store).build(P[None])
    return reference, found.energy - reference, found.n_electrons.sum() - n_pyscf


def scf_energies(case, molecule):
    """PBE energies of PySCF and of dftfd [hartree], and how the integrals were obtained."""
    grids = grid_of(molecule)
    fitted = grids.mol.nao > EXACT
    mf = dft.RKS(grids.mol, xc=FUNCTIONALS["pbe"])
    if fitted:
        mf = mf.density_fit(auxbasis=DensityFittedCoulombExchange(molecule, False)._auxiliary)
    mf = mf.sfx2c1e() if case["relativity"] else mf
    mf.grids, mf.conv_tol, mf.max_cycle = grids, 1e-10, 60
    reference = mf.kernel()
    found = dftfd.run_scf(
        molecule, "pbe", density_fit=fitted, grid=(grids.coords, grids.weights), relativity=case["relativity"]
    )
    if not (mf.converged and found.converged):
        return None
    integrals = "fitted" if fitted else "exact"
    return {"scf_pyscf": reference, "scf_difference": found.energy - reference, "integrals": integrals}


def row_of(case):
    """Size, steepness, and the energies of superposed atoms."""
    molecule = molecule_of(case)
    mole = to_pyscf(molecule)
    P = scf.hf.init_guess_by_minao(mole)
    exponents = [e for shell in range(mole.nbas) for e in mole.bas_exp(shell)]
    steep = [e for shell in range(mole.nbas) if mole.bas_angular(shell) for e in mole.bas_exp(shell)]
    row = {"n_ao": int(mole.nao), "largest_exponent": max(exponents), "largest_exponent_with_l": max(steep)}
    row["electrons_off"] = None
    for name in FUNCTIONALS:
        reference, difference, electrons = energy_differences(molecule, name, P)
        row[f"{name}_pyscf"], row[f"{name}_difference"] = reference, difference
        row["electrons_off"] = float(electrons)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--scf", action="store_true", help="also the whole SCF")
    parser.add_argument("--new", action="store_true", help="leave out what has a row, of an SCF with --scf, already")
    given = parser.parse_args()
    for case in json.loads((FOLDER / "cases.json").read_text()):
        if given.parts and not any(part in case["id"] for part in given.parts):
            continue
        start = time.perf_counter()
        file = FOLDER / "comparison.json"
        rows = json.loads(file.read_text())["rows"] if file.exists() else {}
        if given.new and ("scf_pyscf" if given.scf else "n_ao") in rows.get(case["id"], {}):
            continue
        row = {} if given.new and given.scf and case["id"] in rows else row_of(case)
        if given.scf:
            row |= scf_energies(case, molecule_of(case)) or {"scf_pyscf": None}
        rows[case["id"]] = rows.get(case["id"], {}) | row
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        made_with = f"PySCF {__version__}, libxc {dft.libxc.__version__}"
        file.write_text(f'{{"made with": "{made_with}",\n"rows": {{\n{lines}\n}}}}\n')
        worst = max((abs(value) for key, value in row.items() if key.endswith("_difference")), default=float("nan"))
        print(f"{case['id']:40s} {worst:.1e} {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
