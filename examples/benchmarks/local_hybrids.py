"""Time of an SCF with a local hybrid, def2-SVP, density fitting, grid level 3: caffeine, or chains of alanine.

python examples/benchmarks/local_hybrids.py                        caffeine, lh07t_svwn
python examples/benchmarks/local_hybrids.py alanine2 alanine4      growth over chains
"""

import sys
import time

import molecules

import dftfd


def main():
    for name in sys.argv[1:] or ["caffeine"]:
        molecule = dftfd.molecule(molecules.atoms(name), basis="def2-svp")
        wall, processor = time.perf_counter(), time.process_time()
        result = dftfd.run_scf(molecule, "lh07t_svwn")
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(
            f"{name}: {molecule.n_ao} basis functions, {len(result.grid[1])} points, {result.cycles} cycles, "
            f"converged {result.converged}, {result.energy:.8f} hartree, {wall:.0f} s, processor {processor:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
