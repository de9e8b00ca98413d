"""A meta-GGA of tau: MS0 exchange, which interpolates between one orbital (alpha = 0) and the uniform gas (alpha = 1).

J. Sun, B. Xiao, A. Ruzsinszky, J. Chem. Phys. 137, 051101 (2012). doi:10.1063/1.4742312
"""

import dftfd
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
)


@dftfd.functional("mgga_x_ms0", doi="10.1063/1.4742312")
@spin_scaled
def ms0(n, tau, *, kappa=0.29, c=0.28771, b=1.0, mu=10 / 81):
    """e_x^LDA [F_1 + f(alpha) (F_0 - F_1)],   F_1 = F(mu s^2), F_0 = F(mu s^2 + c),   F(p) = 1 + k - k / (1 + p / k).

    alpha = (tau - tau_W) / tau_unif,   f = (1 - alpha^2)^3 / (1 + alpha^3 + b alpha^6)
    """
    F = lambda p: 1 + kappa - kappa / (1 + p / kappa)
    p = mu * reduced_gradient_squared(n)
    alpha = (tau - weizsaecker_kinetic_energy(n)) / uniform_kinetic_energy(n)
    f = (1 - alpha**2) ** 3 / (1 + alpha**3 + b * alpha**6)
    return slater_exchange(n) * (F(p) + f * (F(p + c) - F(p)))


def main():
    report = dftfd.check(ms0, with_potentials=False)  # libxc has a functional of this name
    print(report)
    neon = dftfd.molecule("Ne 0 0 0;", basis="def2-svp")
    print(dftfd.run_scf(neon, xc="mgga_x_ms0, pbe"))
    return report


if __name__ == "__main__":
    main()
