"""What a result's energy, dipole moment and orbitals change by: forces, stability, responses, vibrations."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import numpy as np

from dftfd.model.forces import nuclear_forces
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.model.stability_analysis import result_stability
from dftfd.response.excitations import SPINS, Excitations, excitations_of
from dftfd.response.hessian import METHODS, POINTS, STEP, second_derivatives
from dftfd.response.polarizability import FREQUENCY, hyperpolarizabilities, polarizabilities
from dftfd.results.qcschema import atomic_result
from dftfd.results.vibrations import Vibrations, vibrations_of
from dftfd.runtime.arguments import public, whole
from dftfd.scf.stability import Stability
from dftfd.system.isotopes import ISOTOPES

_Code = TypeVar("_Code", bound=Callable)


def of_a_solution(method: _Code) -> _Code:
    """A property that raises NotConvergedError where the density is no solution."""

    @wraps(method)
    def checked(result, *arguments, **named):
        result.require_converged(method.__name__.strip("_").replace("_", " "))
        return method(result, *arguments, **named)

    return cast(_Code, checked)


if TYPE_CHECKING:
    _Base = SolvedCalculation
else:
    _Base = object


class Responses(_Base):
    """Methods of SCFResult."""

    @public
    @of_a_solution
    def stability(self) -> Stability:
        """Whether the solution is a minimum: lowest eigenvalues of the energy's Hessian, internal and RKS to UKS.

        The Hessian is exact, double integrals included; UnsupportedError for models of the potential alone, which have
        none. Takes about as long as the calculation, longer with double integrals. Returns a
        dftfd.scf.stability.Stability, whose `guess` leads on from an instability: run_scf(molecule, xc, 'UKS',
        guess=stability.guess, convergence='hard').
        """
        return result_stability(self)

    @public
    def forces(self, grid_response: bool = True) -> np.ndarray:
        """Forces on the nuclei (atom, 3) [hartree/bohr]; dftfd.model.forces.nuclear_forces tells more, and how.

        grid_response=False leaves out the quadrature grid's motion with the nuclei; such forces are not the gradient of
        the energy.
        """
        return nuclear_forces(self, grid_response).values

    @public
    def hessian(
        self,
        method: Annotated[str, METHODS] = "auto",
        points: Annotated[int, POINTS] = 2,
        step: Annotated[float | None, STEP] = None,
        progress: Any = None,
    ) -> np.ndarray:
        """Second derivatives of the energy by the positions of the nuclei, (atom, 3, atom, 3) [hartree/bohr^2].

        Of the free energy with smeared occupations; the motion of the quadrature grid is part of them. See
        `vibrations` for the arguments, docs/vibrations.md for how.

        Raises NotConvergedError where an SCF or the coupled-perturbed equations do not converge, UnsupportedError for
        models of the potential alone, InputError for a given grid.
        """
        return second_derivatives(self, method, points, step, progress=progress).hessian

    @public
    def vibrations(
        self,
        isotopes: Annotated[Any, ISOTOPES] = None,
        *,
        raman: bool = False,
        method: Annotated[str, METHODS] = "auto",
        points: Annotated[int, POINTS] = 2,
        step: Annotated[float | None, STEP] = None,
        record: Path | None = None,
        restart: bool = False,
        progress: Any = None,
    ) -> Vibrations:
        """Harmonic vibrations: wavenumbers, modes, infrared intensities, thermochemistry.

        isotopes: {atom: mass number or mass [u]}, ghost atoms counted, 'average', or None for the most abundant ones.
        raman: polarisabilities are differentiated, too.
        method: 'response' by coupled-perturbed orbitals, 'differences' of forces at displaced geometries, each solved
            anew; 'auto' takes the former where it is possible, and raman= and record= are not asked for.
        points, step: of differences, 2 or 4 points, displacements [bohr]; see docs/vibrations.md for the defaults.
        record: file that holds the displacements done so far; restart=True goes on from it.   progress: as in run_scf.

        Raises as `hessian`; FileError for a record that exists already, without restart.
        """
        found = second_derivatives(self, method, points, step, raman, record, restart, progress)
        return vibrations_of(self, found, isotopes, atomic_result(self))

    @public
    def polarizability(self, omega: Annotated[float, FREQUENCY] = 0.0, progress: Any = None) -> np.ndarray:
        """Dipole polarisability (3, 3) [bohr^3] at a frequency omega [hartree], by default static.

        The derivative of the dipole moment by an electric field, of the whole energy: coupled-perturbed Kohn-Sham.
        At a frequency, of RKS and UKS with full and empty orbitals; the nuclei of a solvent do not follow it then. Of
        smeared occupations static, at fixed numbers of electrons. progress: as in run_scf. See docs/response.md.

        Raises NotConvergedError at a resonance, UnsupportedError for models of the potential, and for smeared
        occupations at a frequency.
        """
        return polarizabilities(self, [omega], progress)[0]

    @public
    def hyperpolarizability(self, progress: Any = None) -> np.ndarray:
        """Static first hyperpolarisability (3, 3, 3) [e^3 bohr^3 / hartree^2], second derivatives of the dipole moment.

        Differences of analytic polarisabilities in fields; symmetric. progress: as in run_scf. See docs/response.md.

        Raises as `polarizability`; NotConvergedError where the SCF in a field does not converge.
        """
        return hyperpolarizabilities(self, progress=progress)[0]

    @public
    def excitations(
        self,
        n: Annotated[int, whole(1)] = 5,
        tda: bool = False,
        spin: Annotated[str | None, SPINS] = None,
        progress: Any = None,
        equilibrium_solvation: bool = False,
    ) -> Excitations:
        """The n lowest vertical excitations by linear response: energies, strengths, characters, orbitals.

        tda: Tamm-Dancoff approximation.   spin: of a closed shell, 'singlet' (the default) or 'triplet'; 'flip' turns
            an alpha electron of UKS or ROKS into a beta one, in that approximation.
        progress: as in run_scf. See docs/response.md.
        equilibrium_solvation: a solvent's nuclei follow the excitation, too; by default its electrons alone do.

        Roots that do not converge come with a ConvergenceWarning and are marked in `converged`. Raises InputError for
        ROKS and partly filled orbitals, UnsupportedError for an unstable ground state and models of the potential.

        >>> import dftfd
        >>> helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe")
        >>> print(helium.excitations(1).characters[0])
        HOMO -> LUMO 100 %
        """
        return excitations_of(self, n, tda, spin, progress, equilibrium=equilibrium_solvation)
