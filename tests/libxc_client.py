"""PySCF as a client of libxc, in a process of its own: prints energies, forces and excitations of a functional's name.

    LD_PRELOAD=library.so python tests/libxc_client.py NAME

Nothing of dftfd is imported. The cation's energy is that of two spins.
"""

import json
import sys

from pyscf import dft, gto

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
BASIS, LEVEL, STATES = "6-31g", 2, 3


def molecule(charge=0):
    return gto.M(atom=WATER, basis=BASIS, charge=charge, spin=charge, verbose=0)


def prepared(mean_field):
    """Settings that are the same on both sides."""
    mean_field.grids.level, mean_field.conv_tol, mean_field.conv_tol_grad = LEVEL, 1e-12, 1e-8
    return mean_field


def observed(closed, cation):
    """Energies [hartree], forces [hartree/bohr] and excitation energies of two mean fields."""
    closed.kernel()
    cation.kernel()
    gradient = closed.nuc_grad_method()
    gradient.grid_response = True
    response = closed.TDDFT()
    response.conv_tol = 1e-10
    excitations = response.run(nstates=STATES).e
    return {
        "energy": closed.e_tot,
        "energy of the cation": cation.e_tot,
        "gradient": gradient.kernel().ravel().tolist(),
        "excitations": excitations.tolist(),
        "converged": bool(closed.converged and cation.converged and response.converged.all()),
    }


if __name__ == "__main__":
    name = sys.argv[1]  # or a number: PySCF looks up names in libxc itself, past what was loaded before it
    closed, cation = dft.RKS(molecule()), dft.UKS(molecule(1))
    closed.xc = cation.xc = name
    results = observed(prepared(closed), prepared(cation))
    print(json.dumps(results | {"pbe": float(dft.RKS(molecule(), xc="pbe").kernel())}))
