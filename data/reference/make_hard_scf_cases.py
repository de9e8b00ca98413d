"""Recompute the SCF reference energies of hard_scf_cases.json with PySCF and print the differences.

    python data/reference/make_hard_scf_cases.py [ID ...]

DIIS comes first, then second order where it fails or where the case asks for it. `needs` of a case: high_spin and flip
(broken symmetry: the high-spin density with alpha and beta exchanged on some atoms), occupations, guess_functional
(a converged density of that functional as start), convergence 'hard' (second order, then stability followed),
one_sided (the reference is an upper bound), no_reference (DIIS fails, the stored value comes from second order).
"""

import json
import sys
from pathlib import Path

import numpy as np
from pyscf import dft, gto, scf

FILE = Path(__file__).with_name("hard_scf_cases.json")
CONV_TOL = 1e-11
UNCONTRACTED = "uncontracted "


def basis_of(case):
    """A name, or shells by element where the case asks for an uncontracted set."""
    name = case["input"]["basis"]
    if not name.startswith(UNCONTRACTED):
        return name
    elements = {symbol for symbol, *_ in case["input"]["atoms"]}
    return {e: gto.uncontract(gto.basis.load(name.removeprefix(UNCONTRACTED), e)) for e in elements}


def mole(case, spin=None):
    """The PySCF molecule of a case; effective core potentials come with def2 basis sets."""
    given = case["input"]
    return gto.M(
        atom=[(symbol, xyz) for symbol, *xyz in given["atoms"]],
        unit=given["unit"],
        charge=given["charge"],
        spin=given["spin"] if spin is None else spin,
        basis=basis_of(case),
        ecp=given["basis"] if given["basis"].startswith("def2") else None,
        cart=given["cartesian"],
        verbose=0,
    )


def mean_field(case, mol, xc=None):
    given = case["input"]
    kind = {"RKS": dft.rks.RKS, "UKS": dft.uks.UKS, "ROKS": dft.roks.ROKS}[given["method"]]
    mf = kind(mol, xc=xc or given["xc"])
    mf.grids.level, mf.conv_tol, mf.max_cycle = given["grid_level"], CONV_TOL, 100
    if given["nlc_grid_level"] is not None:
        mf.nlcgrids.level = given["nlc_grid_level"]
    return mf


def start(case, mol):
    """The starting density, or None for PySCF's own."""
    needs = case["needs"]
    if "guess_functional" in needs:
        return mean_field(case, mol, needs["guess_functional"]).run().make_rdm1()
    if "flip" not in needs:
        return None
    alpha, beta = mean_field(case, mole(case, needs["high_spin"])).run(max_cycle=100).make_rdm1()
    for atom in needs["flip"]:
        a, b = mol.aoslice_by_atom()[atom, 2:]
        alpha[a:b, a:b], beta[a:b, a:b] = beta[a:b, a:b].copy(), alpha[a:b, a:b].copy()
    return np.stack([alpha, beta])


def reference(case):
    """Energy [hartree] of the converged calculation."""
    needs, mol = case["needs"], mole(case)
    mf = mean_field(case, mol)
    if "occupations" in needs:
        numbers = np.zeros((2, mol.nao)) if case["input"]["method"] == "UKS" else np.zeros((1, mol.nao))
        lists = needs["occupations"] if len(numbers) == 2 else [needs["occupations"]]
        for row, given in zip(numbers, lists, strict=True):
            row[: len(given)] = given
        mf.get_occ = lambda e, C: numbers[:, : np.shape(e)[-1]].reshape(np.shape(e))
    mf.kernel(start(case, mol))
    if not mf.converged or needs.get("convergence") == "hard":
        mf = mf.newton().run(mf.make_rdm1(), max_cycle=100)
        for _ in range(5):
            orbitals, _, stable, _ = mf.stability(return_status=True)
            if stable:
                break
            mf = mf.run(mf.make_rdm1(orbitals, mf.mo_occ))
    return mf.e_tot


def main():
    scf.hf.MUTE_CHKFILE = True
    for case in json.loads(FILE.read_text())["cases"]:
        if not sys.argv[1:] or case["id"] in sys.argv[1:]:
            stored, new = case["reference"]["energy"], reference(case)
            print(f"{case['id']:30} {new:18.10f}  stored {stored:18.10f}  {new - stored:9.1e}", flush=True)


if __name__ == "__main__":
    main()
