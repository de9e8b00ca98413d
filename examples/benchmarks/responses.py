"""Time of the responses of a converged calculation against PySCF's: ten singlets, polarisability, Hessian.

    python examples/benchmarks/responses.py                                   aspirin's polarisability, PBE, def2-SVP
    python examples/benchmarks/responses.py --what hessian --xc b3lyp --save
    python examples/benchmarks/responses.py --what excitations --molecule caffeine
    python examples/benchmarks/responses.py --densities FOLDER                the density from an earlier call, or kept
    OMP_NUM_THREADS=1 python examples/benchmarks/responses.py --halves FOLDER --program pyscf --save

With --halves each program runs by itself, once, and leaves its times in the folder; whoever comes second makes the row.
Processor times of one thread can be compared that way on a machine that does other things too. With --limit a program
stops after so many seconds of processor time; its row has a bound in place of a ratio, and compares nothing.

Both start from the same orbitals, ours, with the same grid and fitting functions, to the same residuals. PySCF finds
its grid and fitted integrals ready; ours are made again, and are part of the time. Its polarisability is what its
properties package does: coupled-perturbed Kohn-Sham by its own Krylov solver, to 1e-6 as ours. Its Hessian leaves the
motion of the grid out, ours does not: they agree within what PySCF's sums over atoms miss zero by, which is a column.
"""

import argparse
import json
import signal

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


def their_excitations(solver):
    """Ten singlets of full linear response [hartree]."""
    td = solver.TDDFT()
    td.nstates = 10
    return np.sort(td.kernel()[0])


TASKS = {
    "excitations": (lambda result: result.excitations(10).energies, their_excitations),
    "polarizability": (lambda result: result.polarizability(), their_polarizability),
    "hessian": (lambda result: result.hessian(), their_hessian),
}
PROGRAMS = "dftfd", "pyscf"


def pyscf_solver(mole, xc, grid_level, result, verbose):
    """PySCF's calculation with our orbitals, its grid and fitted integrals ready."""
    solver = dft.RKS(mole, xc=xc).density_fit()
    solver.mo_coeff, solver.mo_occ, solver.mo_energy = result.mo_coeff[0], result.mo_occ[0], result.mo_energy[0]
    solver.grids.level, solver.converged, solver.e_tot = grid_level, True, result.energy
    solver.grids.build()
    solver.with_df.build()
    solver.verbose = mole.verbose = verbose
    return solver


class OutOfTime(Exception):
    """The limit of processor time is reached."""


def limited(call, limit):
    """What call() gives, None once it has taken `limit` seconds of processor time (None: none)."""

    def stop(*_):
        raise OutOfTime

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit or 0.0)
    try:
        return call()
    except OutOfTime:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def row_of(what, halves):
    """What pairs of halves {program: {"times", "values", "peak"}} amount to; those that ended must agree."""
    deviations, sums = [], []
    ended = [half for half in halves if all(half[program]["values"] is not None for program in PROGRAMS)]
    for half in ended:
        found, reference = (np.array(half[program]["values"]) for program in PROGRAMS)
        deviations.append(float(np.abs(found - reference).max()))
        if what == "hessian":
            sums.append(float(np.abs(reference.sum(axis=0)).max()))
        scale = np.abs(reference).max() if what == "polarizability" else 1.0
        if deviations[-1] > (2 * sums[-1] if sums else 0.0) + TOLERANCE * scale:
            raise SystemExit(f"{what} differs by {deviations[-1]:.1e}")
    wall, processor = ([tuple(half[p]["times"][k] for p in ("pyscf", "dftfd")) for half in halves] for k in range(2))
    return {
        "wall": measuring.ratio_of(wall),
        "processor": measuring.ratio_of(processor),
        "ended": len(ended) == len(halves),  # otherwise the time of what did not, and the ratio, are bounds
        "largest_deviation": max(deviations, default=None),
        "pyscf_sum_over_atoms": max(sums, default=None),
        "peak_gigabytes": {program: halves[-1][program]["peak"] for program in PROGRAMS},
    }


def measure(
    what="polarizability",
    molecule="aspirin",
    xc="pbe",
    basis="def2-svp",
    grid_level=3,
    pairs=3,
    densities=None,
    program=None,
    halves=None,
    verbose=0,
    limit=None,
):
    """One row of results; None where the other program's half is not there yet."""
    mole = gto.M(atom=atoms(molecule), basis=basis, verbose=0)
    path = densities and measuring.Path(densities) / f"{molecule}_{xc}_{basis}_fitted_{grid_level}.h5"
    result = density(mole, xc, True, grid_level, path)
    solver = pyscf_solver(mole, xc, grid_level, result, verbose) if program != "dftfd" else None

    def half(name):
        task, subject = TASKS[what][PROGRAMS.index(name)], result if name == "dftfd" else solver
        times, values = timed(lambda: limited(lambda: task(subject), limit))
        print(f"{molecule} {xc} {what}, {name}: wall and processor {times}", flush=True)
        return {
            "times": times,
            "values": None if values is None else values.tolist(),
            "peak": measuring.peak_gigabytes(),
        }

    case = {"what": what, "molecule": molecule, "ao": int(mole.nao), "basis": basis, "xc": xc, "grid_level": grid_level}
    if halves is None:
        measured = [{name: half(name) for name in PROGRAMS} for _ in range(pairs)]
    else:
        files = {
            name: measuring.Path(halves) / f"{what}_{molecule}_{xc}_{basis}_{grid_level}_{name}.json"
            for name in PROGRAMS
        }
        for name in [program] if program else PROGRAMS:
            files[name].write_text(json.dumps(half(name)))
        if not all(file.exists() for file in files.values()):
            return None
        measured = [{name: json.loads(file.read_text()) for name, file in files.items()}]
    return case | row_of(what, measured) | {"machine": measuring.machine()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--what", choices=TASKS, default="polarizability")
    parser.add_argument("--molecule", choices=NAMES, default="aspirin")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--grid-level", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--program", choices=PROGRAMS, help="one of the two; with --halves")
    parser.add_argument("--halves", metavar="FOLDER", help="where each program's half of a pair is kept")
    parser.add_argument("--verbose", type=int, default=0, help="PySCF's; 5 tells the times of its stages")
    parser.add_argument("--limit", type=float, help="seconds of processor time after which a program is stopped")
    parser.add_argument("--densities", metavar="FOLDER", help="where converged densities are kept")
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/responses.json")
    given = vars(parser.parse_args())
    save = given.pop("save")
    if given["program"] and not given["halves"]:
        parser.error("--program needs --halves FOLDER, where the other program's half lies or will lie")
    row = measure(**given)
    if row is None:
        return
    print({key: value for key, value in row.items() if key != "machine"}, flush=True)
    if save:
        measuring.keep("responses", [row])


if __name__ == "__main__":
    main()
