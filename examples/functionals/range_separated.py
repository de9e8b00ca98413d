"""A long-range corrected functional: exchange of the uniform gas at short range, exact exchange at long range.

H. Iikura, T. Tsuneda, T. Yanai, K. Hirao, J. Chem. Phys. 115, 3540 (2001). doi:10.1063/1.1383587
"""

import dftfd
from dftfd.functionals.attenuation import attenuated_slater
from dftfd.functionals.common import spin_scaled


@dftfd.functional("lda_x_own_short_range", doi="10.1063/1.1383587")
@spin_scaled
def short_range(n, *, omega=0.33):
    """Exchange energy per volume of the uniform gas with the operator erfc(omega r)/r."""
    return attenuated_slater(n, omega)


def long_range_corrected(omega):
    """Short range of the density, long range of the orbitals, and VWN correlation."""
    return (
        short_range.with_parameters(omega=omega) + dftfd.long_range_exchange(omega) + dftfd.get_functional("lda_c_vwn")
    )


def main():
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    homos = {}
    for omega in (0.2, 0.33, 0.5):
        result = dftfd.run_scf(water, xc=long_range_corrected(omega))
        homos[omega] = 27.2114 * result.frontier[0][0]
        print(f"omega {omega}  energy {result.energy:.6f} hartree, HOMO {homos[omega]:.2f} eV (ionisation: 12.6 eV)")
    return homos


if __name__ == "__main__":
    main()
