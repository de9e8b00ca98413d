"""Lee-Yang-Parr correlation.

C. Lee, W. Yang, R. G. Parr, Phys. Rev. B 37, 785 (1988). doi:10.1103/PhysRevB.37.785
B. Miehlich, A. Savin, H. Stoll, H. Preuss, Chem. Phys. Lett. 157, 200 (1989), eq. 2. doi:10.1016/0009-2614(89)87234-3
"""

from dftfd.autofd import dot, exp, nabla
from dftfd.functionals.common import C_F, total_density
from dftfd.functionals.numerics import SPIN_FLOOR, at_least
from dftfd.functionals.registry import functional


@functional("gga_c_lyp", doi="10.1103/PhysRevB.37.785")
def correlation(rho, *, a=0.04918, b=0.132, c=0.2533, d=0.349):
    r"""Correlation energy per volume in the form without second derivatives, eq. 2 of Miehlich et al.

    e_c = -4a/(1 + d n^(-1/3)) ra rb / n - a b w { ra rb [ 2^(11/3) C_F (ra^(8/3) + rb^(8/3))
          + (47/18 - 7 delta/18) s - (5/2 - delta/18)(saa + sbb) - (delta - 11)/9 (ra/n saa + rb/n sbb) ]
          - 2/3 n^2 s + (2/3 n^2 - ra^2) sbb + (2/3 n^2 - rb^2) saa },
    w = exp(-c n^(-1/3)) / (1 + d n^(-1/3)) n^(-11/3),   delta = c n^(-1/3) + d n^(-1/3) / (1 + d n^(-1/3))
    """
    ra, rb, n, grad = rho[0], rho[1], total_density(rho), nabla(rho)
    ga, gb = grad[0], grad[1]
    saa, sbb = dot(ga, ga), dot(gb, gb)
    s = saa + sbb + 2 * dot(ga, gb)
    n13 = n ** (-1 / 3)
    screened = 1 / (1 + d * n13)
    delta = c * n13 + d * n13 * screened
    w = exp(-c * n13) * screened * n ** (-11 / 3)
    kinetic = 2 ** (11 / 3) * C_F * (at_least(ra, SPIN_FLOOR) ** (8 / 3) + at_least(rb, SPIN_FLOOR) ** (8 / 3))
    bracket = (
        kinetic
        + (47 - 7 * delta) / 18 * s
        - (45 - delta) / 18 * (saa + sbb)
        - (delta - 11) / 9 * (ra * saa + rb * sbb) / n
    )
    n2 = 2 / 3 * n * n
    gradients = -n2 * s + (n2 - ra * ra) * sbb + (n2 - rb * rb) * saa
    return -4 * a * screened * ra * rb / n - a * b * w * (ra * rb * bracket + gradients)
