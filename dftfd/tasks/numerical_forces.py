"""Forces as differences of energies: slow, and a check on those of model.forces that shares no formula with them."""

from typing import Annotated, Any

import numpy as np

from dftfd.functionals.registry import get_functional
from dftfd.model.forces import Forces, require_energy
from dftfd.model.options import Options
from dftfd.response.differences import Differences, require_same_number
from dftfd.runtime.arguments import number, public
from dftfd.runtime.progress import Progress, as_progress
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import run_scf

STEP = 1e-3  # bohr: at 1e-13 hartree of rounding and fifth derivatives of some 10, both errors are near 1e-11


@public
def numerical_forces(
    molecule: Molecule,
    xc: Any = "pbe",
    method: str = "auto",
    *,
    step: Annotated[float, number(lambda h: 0 < h < 0.1, "a displacement between 0 and 0.1 bohr")] = STEP,
    conv_tol: float = 1e-12,
    guess: Any = "minao",
    progress: Any = None,
    **scf_options: Any,
) -> Forces:
    r"""Five-point differences of the (free) energy by the position of each nucleus.

        F(x) = -(8 E(x+h) - 8 E(x-h) - E(x+2h) + E(x-2h)) / 12h,   with an error of h^4 E^(5) / 30

    molecule, xc, method, scf_options: as in `run_scf`; 12 calculations for each nucleus, from the density of the first.
    step: h [bohr].   conv_tol: their convergence, whose error in the force is about conv_tol / h.

    Raises NotConvergedError where a calculation does not converge, UnsupportedError for models of the potential.
    """
    progress = as_progress(progress)
    functional = get_functional(xc)
    require_energy(functional)
    given = {"xc": functional, "method": method, "conv_tol": conv_tol, "guess": guess} | scf_options
    options = Options.given_to("numerical_forces", **given, progress=Progress())
    first = run_scf(molecule, **options.changed())
    nearby = options.going_on_from(first)

    def energy(atom, axis, shift):
        coordinates = molecule.coordinates.copy()
        coordinates[atom, axis] += shift
        result = run_scf(molecule.at(coordinates), **nearby)
        result.require_converged("numerical forces")
        require_same_number(result, first, f"atom {atom} moved by {shift:g} bohr")
        return result.free_energy

    differences, values = Differences(4, step, raman=False), np.empty_like(molecule.coordinates)
    with progress.stage("displacements"):
        for done, (atom, axis) in enumerate(np.ndindex(values.shape), start=1):
            values[atom, axis] = -differences.derivative([energy(atom, axis, k * step) for k in differences.shifts])
            progress.part(done, values.size)
    fixed = not first.calculation.grid.moves
    return Forces(values, molecule.coordinates, molecule.symbols, not fixed, fixed)
