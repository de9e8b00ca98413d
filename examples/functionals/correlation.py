"""A correlation functional of the spin densities: Wigner's, in r_s and zeta.

E. Wigner, Trans. Faraday Soc. 34, 678 (1938). doi:10.1039/TF9383400678
"""

import dftfd
from dftfd.functionals.common import polarisation, total_density, wigner_seitz_radius


@dftfd.functional("lda_c_wigner", doi="10.1039/TF9383400678")
def wigner(rho, *, a=-0.44, b=7.8):
    """n a (1 - zeta^2) / (b + r_s): nothing for one spin alone, a (1 - zeta^2) / r_s per electron in the dilute gas."""
    n, zeta = total_density(rho), polarisation(rho)
    return n * a * (1 - zeta**2) / (b + wigner_seitz_radius(n))


def main():
    report = dftfd.check(wigner, with_potentials=False)
    print(report)
    helium = dftfd.molecule("He 0 0 0;", basis="def2-svp")
    for a in (-0.44, -0.88):  # another number compiles nothing
        print(a, dftfd.run_scf(helium, xc=dftfd.get_functional("lda_x") + wigner.with_parameters(a=a)).energy)
    return report


if __name__ == "__main__":
    main()
