"""Second-order perturbation theory as a part of functionals, and double hybrids.

    E_c^PT2 = c_os E_os + c_ss E_ss,   E_os = sum_ij,ab (ia|jb)^2 / (e_i + e_j - e_a - e_b) over opposite spins,

and E_ss the antisymmetrised sum over equal spins, of the orbitals that the rest of the functional gives.

S. Grimme, J. Chem. Phys. 124, 034108 (2006). doi:10.1063/1.2148954
"""

from dataclasses import replace

from dftfd.errors import UnsupportedError
from dftfd.functionals import b88, lyp, p86, pbe
from dftfd.functionals.base import Functional, exact_exchange
from dftfd.functionals.registry import register

opposite_spins = register(Functional("pt2_os", pt2=(1.0, 0.0)))
equal_spins = register(Functional("pt2_ss", pt2=(0.0, 1.0)))
pt2 = register(Functional("pt2", pt2=(1.0, 1.0)))

# S. Grimme, J. Chem. Phys. 124, 034108 (2006). doi:10.1063/1.2148954
b2plyp = register(
    0.53 * exact_exchange + 0.47 * b88.exchange + 0.73 * lyp.correlation + 0.27 * pt2,
    "b2plyp",
    doi="10.1063/1.2148954",
)

# G. Santra, N. Sylvetsky, J. M. L. Martin, J. Phys. Chem. A 123, 5129 (2019). doi:10.1021/acs.jpca.9b03157
# The numbers that belong to D4; they were fitted with core electrons left out of the perturbation theory.
revdsd_pbep86 = register(
    0.69 * exact_exchange
    + 0.31 * pbe.exchange
    + 0.4210 * p86.correlation
    + 0.5922 * opposite_spins
    + 0.0636 * equal_spins,
    "revdsd_pbep86",
    doi="10.1021/acs.jpca.9b03157",
)


def without_pt2(functional: Functional, problem: str) -> None:
    """Raise UnsupportedError for a functional with perturbation theory; `problem`: what is not there, in words."""
    if functional.pt2:
        raise UnsupportedError(f"{functional.name!r} is a double hybrid, {problem}.")


def orbitals_alone(functional: Functional) -> Functional:
    """The functional without perturbation theory, whose orbitals a double hybrid takes."""
    return replace(functional, pt2=())
