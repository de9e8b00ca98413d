"""A double integral: VV10's nonlocal correlation, written from its paper with functions of two points.

O. A. Vydrov, T. Van Voorhis, J. Chem. Phys. 133, 244103 (2010). doi:10.1063/1.3521275
"""

import math

import dftfd
from dftfd.autofd import sqrt
from dftfd.functionals.common import gradient_squared
from dftfd.functionals.pairs import dense_part, guarded, here, integral_over_there, squared_distance, there


@dftfd.functional("own_nonlocal_c", doi="10.1063/1.3521275")
@guarded
def nonlocal_correlation(n, *, b=5.9, C=0.0093):
    """n(r) (beta + 1/2 integral of n(r') Phi(r, r') dr'),   Phi = -3 / (2 g g' (g + g')),   g = omega_0 R^2 + kappa."""
    n, safe = dense_part(n, 1e-8)  # far out n / n would be rounding, and pairs cost time
    gap = gradient_squared(n) / safe**2
    omega_0 = sqrt(C * gap**2 + 4 * math.pi / 3 * safe)
    kappa = 1.5 * math.pi * b * (safe / (9 * math.pi)) ** (1 / 6)
    R2 = squared_distance(n)
    g, g_there = here(omega_0) * R2 + here(kappa), there(omega_0) * R2 + there(kappa)
    Phi = -1.5 / (g * g_there * (g + g_there))
    beta = (3 / b**2) ** 0.75 / 32  # no energy in the uniform gas
    return n * (beta + 0.5 * integral_over_there(there(n) * Phi))


def main():
    argon = dftfd.molecule("Ar 0 0 0; Ar 0 0 3.8", basis="def2-svp")
    options = {"grid_level": 1, "nlc_grid_level": 0}
    energies = [
        dftfd.run_scf(argon, xc=dftfd.get_functional("pbe") + part, **options).energies["xc"]
        for part in (nonlocal_correlation, dftfd.get_functional("vv10"))
    ]
    print(f"argon dimer, E_xc with own formula {energies[0]:.8f}, with the library's {energies[1]:.8f} hartree")
    return energies


if __name__ == "__main__":
    main()
