"""Time of the polarisability and of the Hessian of a converged calculation against PySCF's.

    python examples/benchmarks/responses.py                                   aspirin's polarisability, PBE, def2-SVP
    python examples/benchmarks/responses.py --what hessian --xc b3lyp --save
    python examples/benchmarks/responses.py --densities FOLDER                the density from an earlier call, or kept

Both start from the same orbitals, ours, with the same grid and fitting functions. PySCF's polarisability is what its
properties package does: coupled-perturbed Kohn-Sham by its own Krylov solver, to 1e-6 as ours. Its Hessian leaves the
motion of the grid out, ours does not: they agree within what PySCF's sums over atoms miss zero by, which is a column.
"""

import argparse

import measuring
import numpy as np
from gradient import density, timed
from molecules import NAMES, atoms
from pyscf import dft, gto
from pyscf.scf import cphf

import dftfd  # noqa: F401 (float64)

TOLERANCE = 1e-6


def their_polarizability(solver):
    """alpha (3, 3) [bohr^3]."""
    C, n, e = solver.mo_coeff, solver.mo_occ, solver.mo_energy
    occupied, virtual = C[:, n > 0], C[:, n == 0]
    charges, coordinates = solver.mol.atom_charges(), solver.mol.atom_coords()
    with solver.mol.with_common_orig(np.einsum("i,ix->x", charges, coordinates) / charges.sum()):
        r = solver.mol.intor_symmetric("int1e_r", comp=3)
    h = np.einsum("xab,ap,bq->xpq", r, virtual, occupied, optimize=True)
    response = solver.gen_response(hermi=1)

    def induced(x):
        x = x.reshape(-1, *h.shape[1:])
        half = np.einsum("xpq,ap,bq->xab", 2.0 * x, virtual, occupied, optimize=True)
        v = response(half + half.transpose(0, 2, 1))
        return np.einsum("xab,ap,bq->xpq", v, virtual, occupied, optimize=True).ravel()

    x = cphf.solve(induced, e, n, h, max_cycle=40, tol=1e-6)[0].reshape(h.shape)
    return -4.0 * np.einsum("xpq,ypq->xy", h, x)


def their_hessian(solver):
    """(atom, 3, atom, 3) [hartree/bohr^2]."""
    hessian = solver.Hessian()
    hessian.auxbasis_response = 2
    return hessian.kernel().transpose(0, 2, 1, 3)


TASKS = {
    "polarizability": (lambda result: result.polarizability(), their_polarizability),
    "hessian": (lambda result: result.hessian(), their_hessian),
}


def measure(
    what="polarizability", molecule="aspirin", xc="pbe", basis="def2-svp", grid_level=3, pairs=3, densities=None
):
    """One row of results."""
    mole = gto.M(atom=atoms(molecule), basis=basis, verbose=0)
    path = densities and measuring.Path(densities) / f"{molecule}_{xc}_{basis}_fitted_{grid_level}.h5"
    result = density(mole, xc, True, grid_level, path)
    solver = dft.RKS(mole, xc=xc).density_fit()
    solver.mo_coeff, solver.mo_occ, solver.mo_energy = result.mo_coeff[0], result.mo_occ[0], result.mo_energy[0]
    solver.grids.level, solver.converged, solver.e_tot = grid_level, True, result.energy
    solver.grids.build()
    solver.with_df.build()
    ours, theirs = TASKS[what]
    rows, deviations, sums = [], [], []
    for _ in range(pairs):
        our_times, found = timed(lambda: ours(result))
        our_peak = measuring.peak_gigabytes()
        reference_times, reference = timed(lambda: theirs(solver))
        deviations.append(float(np.abs(found - reference).max()))
        if what == "hessian":
            sums.append(float(np.abs(reference.sum(axis=0)).max()))
        if deviations[-1] > (2 * sums[-1] if sums else TOLERANCE * np.abs(reference).max()) + TOLERANCE:
            raise SystemExit(f"{molecule} {xc}: {what} differs by {deviations[-1]:.1e}")
        rows.append((reference_times, our_times))
        print(f"pyscf, ours: wall and processor {reference_times} {our_times}", flush=True)
    wall, processor = ([(theirs[k], ours[k]) for theirs, ours in rows] for k in range(2))
    return {
        "what": what,
        "molecule": molecule,
        "ao": int(mole.nao),
        "basis": basis,
        "xc": xc,
        "grid_level": grid_level,
        "wall": measuring.ratio_of(wall),
        "processor": measuring.ratio_of(processor),
        "largest_deviation": max(deviations),
        "pyscf_sum_over_atoms": max(sums, default=None),
        "our_peak_gigabytes": our_peak,
        "peak_gigabytes": measuring.peak_gigabytes(),
        "machine": measuring.machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--what", choices=TASKS, default="polarizability")
    parser.add_argument("--molecule", choices=NAMES, default="aspirin")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--grid-level", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--densities", metavar="FOLDER", help="where converged densities are kept")
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/responses.json")
    given = vars(parser.parse_args())
    save = given.pop("save")
    row = measure(**given)
    print({key: value for key, value in row.items() if key != "machine"}, flush=True)
    if save:
        measuring.keep("responses", [row])


if __name__ == "__main__":
    main()
