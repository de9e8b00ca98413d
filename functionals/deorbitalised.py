"""SCAN-L and r2SCAN-L: SCAN and r2SCAN of density, gradient and Laplacian, with tau from a kinetic energy functional.

D. Mejia-Rodriguez, S. B. Trickey, Phys. Rev. A 96, 052512 (2017). doi:10.1103/PhysRevA.96.052512
D. Mejia-Rodriguez, S. B. Trickey, Phys. Rev. B 102, 121109 (2020). doi:10.1103/PhysRevB.102.121109
"""

from dftfd.functionals import scan
from dftfd.functionals.kinetic import tau_pc_opt
from dftfd.functionals.registry import functional, register


def _deorbitalised(parent, name, doi):
    @functional(name, doi=doi)
    def energy(rho):
        """Energy per volume of the parent functional with the tau of PC07opt."""
        return parent.energy_density(rho, tau=tau_pc_opt(rho))

    return energy


_SCANL, _R2SCANL = "10.1103/PhysRevA.96.052512", "10.1103/PhysRevB.102.121109"

scanl_exchange = _deorbitalised(scan.scan_exchange, "mgga_x_scanl", _SCANL)
scanl_correlation = _deorbitalised(scan.scan_correlation, "mgga_c_scanl", _SCANL)
scanl = register((scanl_exchange + scanl_correlation).named("scanl"))

r2scanl_exchange = _deorbitalised(scan.r2scan_exchange, "mgga_x_r2scanl", _R2SCANL)
r2scanl_correlation = _deorbitalised(scan.r2scan_correlation, "mgga_c_r2scanl", _R2SCANL)
r2scanl = register((r2scanl_exchange + r2scanl_correlation).named("r2scanl"))
