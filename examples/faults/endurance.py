"""Many runs in one process: does it grow, and is the result the same to the last bit?

    python examples/faults/endurance.py --save        500 runs; a tenth as many for equality

Memory is that of the process after every tenth of the runs; growth is from the first tenth to the last. Every run has
a geometry of its own. Equality is of energy, orbital energies and density, with two threads.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")

from common import report  # noqa: E402

import dftfd  # noqa: E402
from dftfd.runtime.memory import process_memory  # noqa: E402
from dftfd.runtime.threads import worker_count  # noqa: E402

WATER = "O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24"


def growth(runs):
    """Memory [MB] after each tenth of the runs."""
    memory = []
    for k in range(runs):
        hydrogen = dftfd.molecule(f"H 0 0 0; H 0 0 {0.6 + 0.5 * k / runs:.6f}", basis="sto-3g")
        dftfd.run_scf(hydrogen, xc=("pbe", "lda,vwn", "pbe0")[k % 3], grid_level=1)
        if (k + 1) % max(1, runs // 10) == 0:
            memory.append(round(process_memory() / 1e6, 1))
    return memory


def differences(runs, **options):
    """(runs that differ in any bit from the first, largest difference of the energy [hartree])."""
    molecule = dftfd.molecule(WATER, basis="sto-3g")
    results = [dftfd.run_scf(molecule, xc="pbe0", grid_level=1, **options) for _ in range(runs)]
    bits = [(r.energy.hex(), r.mo_energy.tobytes(), r.density_matrix.tobytes()) for r in results]
    return sum(b != bits[0] for b in bits), max(abs(r.energy - results[0].energy) for r in results)


def endurance(runs, folder, rng):
    """Figures of `runs` runs for growth, a tenth as many for equality."""
    memory = growth(runs)
    fitted, exact = differences(runs // 10), differences(runs // 10, density_fit=False)
    return {
        "runs": runs,
        "memory [MB]": memory,
        "growth [%]": round(100 * (memory[-1] / memory[0] - 1), 2),
        "threads": worker_count(),
        "density fitting: runs compared, different in a bit": [runs // 10, fitted[0]],
        "exact integrals: runs compared, different in a bit": [runs // 10, exact[0]],
        "exact integrals: largest difference of the energy [hartree]": exact[1],
    }


if __name__ == "__main__":
    report("endurance", endurance, 500)
