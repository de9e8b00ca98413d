"""A global hybrid: PBE0 with a third of exact exchange.

C. A. Guido, E. Bremond, C. Adamo, P. Cortona, J. Chem. Phys. 138, 021104 (2013). doi:10.1063/1.4775591
"""

import dftfd

pbe_x, pbe_c = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
pbe0_13 = dftfd.register(1 / 3 * dftfd.exact_exchange + 2 / 3 * pbe_x + pbe_c, "hyb_gga_xc_pbe0_13")


def main():
    report = dftfd.check(pbe0_13, with_potentials=False)  # the share of exact exchange, too
    print(report)
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    for share in (0.25, 1 / 3, 0.5):
        hybrid = dftfd.get_functional("pbe0", exact_exchange=share)
        print(f"{share:.3f}", dftfd.run_scf(water, xc=hybrid).energy)
    return report, dftfd.run_scf(water, xc=pbe0_13).energy


if __name__ == "__main__":
    main()
