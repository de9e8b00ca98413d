"""PySCF and Psi4 in processes of their own, with the fastest BLAS kernels that the processor has.

The OpenBLAS in PySCF's wheel (0.3.3) and Debian's (0.3.21) take processors that are newer than they are for a
Prescott, and use SSE3. OPENBLAS_CORETYPE in these processes' environment says what the processor can do; dftfd's own
process keeps what its NumPy chooses. Every answer tells the kernels and threads that were used, and `refuse_generic`
ends a comparison with slow ones. PySCF's own OpenBLAS has one thread by design: it is called from parallel loops.
Psi4's threads are OpenMP's, so that it needs the OpenBLAS of OpenMP (`libopenblas0-openmp`). With the one that has
threads of its own, which Debian prefers where both are installed, an SCF of benzene takes four times as long.

    PySCF().run(molecule="benzene", xc="pbe", basis="def2-svp", pair=0, tuned=False, gradient=False)
    {"energy": [hartree], "seconds": {"scf": [s], "gradient": [s]}, "blas": [{"library", "kernels", "threads"}, ...]}
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = os.environ.get("OMP_NUM_THREADS", "2")
SLOW = {"prescott", "generic", "unknown", "core2", "penryn", "dunnington", "nehalem", "athlon", "opteron", "barcelona"}
"""Kernels that use neither AVX nor fused multiplication, by OpenBLAS's names; 'reference' has no kernels at all."""

OPENMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
"""Where Debian has the OpenBLAS of OpenMP, which need not be the one that is linked to."""

NLC_LEVEL = 1
"""Grid level of VV10 in dftfd, for PySCF when tuned."""

DIRECTIONS, KEPT = 170, 0.978
"""Of a shell in Psi4's grid, and the share of its points that have a weight worth keeping."""

PSI4_LACKS = {
    "r2scan": {"name": "r2scan", "x_functionals": {"MGGA_X_R2SCAN": {}}, "c_functionals": {"MGGA_C_R2SCAN": {}}}
}
"""Functionals that version 1.3.2 has no name for, from libxc's."""

PSI4_INPUT = """
import ctypes, json, time
blas = ctypes.CDLL("libblas.so.3")
kernels, threads, parallel = "reference", 1, 0
if hasattr(blas, "openblas_get_corename"):
    blas.openblas_get_corename.restype = ctypes.c_char_p
    kernels, threads = blas.openblas_get_corename().decode(), blas.openblas_get_num_threads()
    parallel = blas.openblas_get_parallel()
asked_for = {functional}
memory 10 GB
set {{ basis {basis}
 scf_type df
 e_convergence 1e-9
 d_convergence 1e-6
 dft_radial_points {shells}
 dft_spherical_points {directions}
}}
molecule warm {{
O 0 0 0.1173
H 0 0.7572 -0.4692
H 0 -0.7572 -0.4692
}}
energy("scf", dft_functional=asked_for)
molecule asked {{
{charge} {multiplicity}
{atoms}
units bohr
no_com
no_reorient
symmetry c1
}}
seconds, begun = {{}}, time.perf_counter()
found, wfn = energy("scf", dft_functional=asked_for, return_wfn=True)
seconds["scf"] = time.perf_counter() - begun
if {gradient}:
    begun = time.perf_counter()
    gradient("scf", dft_functional=asked_for, ref_wfn=wfn)
    seconds["gradient"] = time.perf_counter() - begun
with open("found.json", "w") as file:
    library = "libblas.so.3, " + ("one thread", "threads of its own", "OpenMP")[parallel]
    blas = [{{"library": library, "kernels": kernels, "threads": threads}}]
    json.dump({{"seconds": seconds, "energy": found, "blas": blas}}, file)
"""


def best_kernels() -> str:
    """Name of OpenBLAS's kernels for this processor that versions since 2018 know."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if "avx512f" in flags and "avx512dq" in flags and "avx512vl" in flags:
        return "SKYLAKEX"
    if "avx2" in flags and "fma" in flags:
        return "HASWELL"
    raise SystemExit("The processor has no AVX2, for which OpenBLAS's kernels were not compared.")


def environment() -> dict:
    """Variables of these processes."""
    return os.environ | {"OPENBLAS_CORETYPE": best_kernels(), "OMP_NUM_THREADS": THREADS}


def environment_of_psi4() -> dict:
    """The same, with the OpenBLAS of OpenMP."""
    libraries = os.pathsep.join(filter(None, [OPENMP, os.environ.get("LD_LIBRARY_PATH")]))
    return environment() | {"LD_LIBRARY_PATH": libraries}


def refuse_generic(program: str, blas: list[dict]) -> None:
    """End the comparison if a BLAS of the program ran slow kernels."""
    for row in blas:
        if row["kernels"].lower() in SLOW | {"reference"}:
            raise SystemExit(f"{program}: {row['library']} ran its {row['kernels']} kernels; the row is worth nothing.")
        if "threads of its own" in row["library"] and row["threads"] > 1:
            raise SystemExit(
                f"{program}: {row['library']}, which disturb those of OpenMP; install libopenblas0-openmp."
            )


class PySCF:
    """A process that computes what it is asked for, line by line."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def run(self, **order) -> dict:
        """Energy [hartree], seconds, and the BLAS used."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"PySCF's process ended at {order}")
        found = json.loads(answer)
        refuse_generic("PySCF", found["blas"])
        return found

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def psi4(mole, xc: str, basis: str, points: int, gradient: bool = False) -> dict:
    """The same of Psi4, on about as many grid points as asked for; `points` in the answer are those that it used."""
    atoms = "\n".join(
        f"{mole.atom_pure_symbol(i)} " + " ".join(f"{x:.12f}" for x in mole.atom_coord(i)) for i in range(mole.natm)
    )
    functional = repr(PSI4_LACKS.get(xc, xc))
    settings = {
        "basis": basis,
        "functional": functional,
        "charge": mole.charge,
        "multiplicity": mole.spin + 1,
        "gradient": gradient,
    }
    shells = round(points / (KEPT * DIRECTIONS * mole.natm))
    with tempfile.TemporaryDirectory() as folder:
        text = PSI4_INPUT.format(atoms=atoms, shells=shells, directions=DIRECTIONS, **settings)
        Path(folder, "input.dat").write_text(text)
        command = ["psi4", "-n", THREADS, "input.dat", "output.dat"]
        run = subprocess.run(command, cwd=folder, capture_output=True, env=environment_of_psi4())
        output = Path(folder, "output.dat")
        if run.returncode:
            tail = output.read_text()[-1500:] if output.exists() else ""
            raise SystemExit(f"psi4: {run.stderr.decode()[-500:]} {tail}")
        used = [int(line.split("=")[1]) for line in output.read_text().splitlines() if "Total Points" in line]
        found = json.loads(Path(folder, "found.json").read_text())
    refuse_generic("Psi4", found["blas"])
    return found | {"points": used[-1]}


def _answer(molecule, xc, basis, pair, tuned, gradient):
    from molecules import geometry
    from pyscf import dft
    from threadpoolctl import threadpool_info

    mole = geometry(molecule, basis, 0, pair)
    seconds, begun = {}, time.perf_counter()
    solver = (dft.UKS if mole.spin else dft.RKS)(mole, xc=xc).density_fit()
    solver.conv_tol = 1e-9
    if tuned:  # the fitting tensor built once, and VV10 on the level of dftfd's default
        solver.nlcgrids.level = NLC_LEVEL
        solver.grids.build(with_non0tab=True)
        solver.with_df.build()
    solver.kernel()
    seconds["scf"] = time.perf_counter() - begun
    if gradient:
        begun = time.perf_counter()
        slopes = solver.nuc_grad_method()
        slopes.grid_response = True
        slopes.kernel()
        seconds["gradient"] = time.perf_counter() - begun
    blas = [
        {
            "library": f"{Path(row['filepath']).parent.name}/{row['internal_api']} {row['version'] or 'of no version'}",
            "kernels": row.get("architecture") or "unknown",
            "threads": row["num_threads"],
        }
        for row in threadpool_info()
        if row["user_api"] == "blas"
    ]
    return {"energy": float(solver.e_tot), "seconds": seconds, "blas": blas}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_answer(**json.loads(line))), flush=True)
