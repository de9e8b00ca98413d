"""A user's script over the public API, which strict type checkers pass without an error; see test_types.py."""

from pathlib import Path

import numpy as np

import dftfd
from dftfd.autofd import Function
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.interop.libxc import evaluate

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


@dftfd.functional("user_x")
@spin_scaled
def user_x(n: Function, *, mu: float = 0.2) -> Function:
    return slater_exchange(n) * (1 + mu * reduced_gradient_squared(n)) ** 0.25


def curve(xc: str) -> list[float]:
    scan = dftfd.scan(dftfd.molecule("H 0 0 0; F 0 0 0.92"), xc, atoms=(0, 1), values=[0.9, 1.0])
    scan.write(Path("curve.csv"))
    return [float(e) for e in scan.energies]


def main() -> None:
    water = dftfd.molecule(WATER, basis="def2-svp", charge=0, spin=0)
    result = dftfd.run_scf(water, xc="pbe", grid_level=2, progress=True)
    print(result.energy, result.converged, result.cycles)
    forces = result.forces()
    print(float(np.abs(forces).max()), result.charges().sum(), result.gap)
    print(float(np.asarray(result.v_xc(np.array([0.1, 0.2, 0.3]))).sum()))
    result.save(Path("water.h5"))
    again = dftfd.load_result(Path("water.h5"))
    print(again.energy - result.energy, again.molecule.formula)
    changed = dftfd.get_functional("pbe", kappa=0.9)
    own = 0.75 * user_x + dftfd.get_functional("gga_c_pbe") + 0.25 * dftfd.exact_exchange
    for functional in (changed, own):
        print(functional.name, dftfd.run_scf(water, xc=functional).energies["xc"])
    found = dftfd.optimize(water, "pbe", max_steps=3)
    print(found.converged, found.molecule.coordinates)
    for outcome in dftfd.run_batch([water], "lda,vwn", task="gradient"):
        print(outcome.name, outcome.energy, outcome.largest_force)
    print(dftfd.interaction_energy(water, [(0, 1, 2)], "pbe").energy_kcal)
    report = dftfd.check("lda_x", values=Path("mine.csv"), tolerance=1e-8)
    print(report.passed, [row.error for row in report.rows])
    print(dftfd.report_card("pbe")["Lieb-Oxford bound"].passed, evaluate("pbe", rho=[1.0], sigma=[0.1])["exc"])
    print(curve("pbe"), dftfd.list_functionals()[:3])


if __name__ == "__main__":
    main()
