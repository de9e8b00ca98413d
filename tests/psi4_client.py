"""Psi4 as a client of libxc, in a process of its own: SCF of water and its cation with libxc's functional of a name.

    LD_PRELOAD=library.so python psi4_client.py [NAME] PBE

Nothing of dftfd is imported. Writes energies [hartree] to found.json and, with NAME, points and weights to grid.npy.
"""

import json
import sys

import numpy as np
import psi4

WATER = """
{charge} {multiplicity}
O 0 0 0.1173
H 0 0.7572 -0.4692
H 0 -0.7572 -0.4692
symmetry c1
no_com
no_reorient
units angstrom
"""
OPTIONS = {
    "basis": "6-31g", "scf_type": "pk", "e_convergence": 1e-11, "d_convergence": 1e-9, "guess": "core",
    "dft_radial_points": 50, "dft_spherical_points": 302, "dft_basis_tolerance": 1e-16,
}  # fmt: skip


def energy(functional, charge=0):
    """(energy, wave function)."""
    mole = psi4.geometry(WATER.format(charge=charge, multiplicity=charge + 1))
    psi4.set_options(OPTIONS | {"reference": "uks" if charge else "rks"})
    return psi4.energy("scf", dft_functional=functional, molecule=mole, return_wfn=True)


if __name__ == "__main__":
    psi4.core.set_output_file("psi4.out", False)
    *own, reference = sys.argv[1:]
    found = {reference: energy(reference)[0]}
    if own:
        functional = {"name": "own", "xc_functionals": {own[0]: {}}}  # exact exchange is libxc's to say
        runs = [energy(functional, charge) for charge in (0, 1)]
        found["own"] = [e for e, _ in runs]
        np.save("grid.npy", np.array(runs[0][1].V_potential().get_np_xyzw()))
    with open("found.json", "w") as file:
        json.dump(found, file)
