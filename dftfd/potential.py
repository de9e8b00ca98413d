"""The exchange-correlation potential of a density matrix as Functions of r (strong form)."""

from dftfd.density import density_function
from dftfd.functionals.base import SPACE, Functional


def xc_potential(functional: Functional, molecule, P):
    """(v_xc, v_tau): Functions R^3 -> R^2 (alpha, beta) [hartree]; v_tau is None without tau.

    v_xc = dE_xc/d rho. With tau, the Kohn-Sham operator is v_xc - 1/2 div(v_tau grad).
    P: (spin, ao, ao), as in `density_function`.
    """
    if functional.needs_tau:
        return functional.potential(*density_function(molecule, P, tau=True, domain=SPACE))
    return functional.potential(density_function(molecule, P, domain=SPACE)), None
