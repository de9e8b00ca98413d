"""Energies of the cases of data/reference on dftfd's own grid, by the dftfd that is installed.

    python -m tests.verification.held_energies [--write FILE]

prints the largest difference from data/reference/held_energies.json, which holds those of an earlier version; --write
keeps those of this one. Reference values of other programs are compared to 1e-8 hartree elsewhere: this is for changes
of the code that ought to change nothing.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import dftfd
from dftfd.results.result import SCFResult
from tests import test_forces_reference, test_scf_hard_cases, test_scf_reference

FILE = Path(__file__).parents[2] / "data/reference/held_energies.json"
CONVERGED = 1e-12  # hartree, the change of the energy in the last cycle


def cases() -> dict[str, Callable[[], SCFResult]]:
    """Name -> code of the calculation."""
    found = {
        f"gradient {name}": lambda case=case: test_forces_reference.converged(case)
        for name, case in test_forces_reference.CASES.items()
    }
    found |= {f"scf {case['id']}": lambda case=case: _plain(case) for case in test_scf_reference.CASES}
    return found | {f"hard {case['id']}": lambda case=case: _hard(case) for case in test_scf_hard_cases.CASES}


def _plain(case):
    given, system = case["input"], test_scf_reference.build(case)
    options = {"method": given["method"], "grid_level": given["grid_level"], "density_fit": False}
    return dftfd.run_scf(system, given["xc"], conv_tol=CONVERGED, **options)


def _hard(case):
    system, options = test_scf_hard_cases.build(case), test_scf_hard_cases.options(case)
    start = test_scf_hard_cases.start(case, system)
    return dftfd.run_scf(system, case["input"]["xc"], conv_tol=CONVERGED, **options, **start)


def held() -> dict[str, float]:
    """Name -> energy [hartree] of the earlier version."""
    return json.loads(FILE.read_text())["energies"]


def main(arguments=None) -> None:
    """Compute all cases; print differences, the largest last."""
    parser = argparse.ArgumentParser(
        prog="held_energies", description="Compare energies with those of an earlier version."
    )
    parser.add_argument("--write", type=Path, help="JSON file for the energies of this version")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    energies, before = {}, held() if FILE.exists() else {}
    for name, calculation in cases().items():
        energies[name] = calculation().energy
        print(f"{name}: {energies[name]:.12f}, {energies[name] - before.get(name, float('nan')):+.1e}", flush=True)
    if given.write:
        given.write.write_text(json.dumps({"made_with": f"dftfd {dftfd.__version__}", "energies": energies}, indent=1))
    print("largest difference:", max((abs(e - before[name]), name) for name, e in energies.items() if name in before))


if __name__ == "__main__":
    main()
