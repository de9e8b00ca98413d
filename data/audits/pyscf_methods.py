"""Methods of PySCF for `dftfd audit-code data/audits/pyscf_methods.py:NAME`."""

from pyscf import cc, dft, gto, mp, scf, solvent  # noqa: F401  solvent adds PCM to mean fields

from dftfd.interop.audit_targets import PySCFTarget


def of(make, title, basis="6-31g", **options):
    """A target with a title."""
    return PySCFTarget(make, basis=basis, title=f"{title}/{basis}", **options)


def kohn_sham(xc, **options):
    """KS with a functional, grid level 1."""

    def make(mole):
        method = dft.KS(mole, xc=xc)
        method.grids.level = 1
        for name, value in options.items():
            setattr(method, name, value)
        return method

    return make


def solvated(method, kind="PCM", model="IEF-PCM", epsilon=78.4):
    """A continuum around a mean field."""

    def make(mole):
        found = getattr(method(mole), kind)()
        if kind == "PCM":
            found.with_solvent.method = model
        if kind == "SMD":
            found.with_solvent.solvent = "water"
        else:
            found.with_solvent.eps = epsilon
        return found

    return make


def with_dispersion(mole):
    method = scf.HF(mole)
    method.disp = "d3bj"
    return method


def smeared(mole):
    return scf.addons.smearing_(scf.HF(mole), sigma=0.05, method="fermi")


GRID = {"grid_response": True}

hf = of(scf.HF, "HF", "sto-3g")
hf_fitted = of(lambda mole: scf.HF(mole).density_fit(), "fitted HF")
rohf = of(scf.ROHF, "ROHF")
hf_ecp = of(scf.HF, "HF", "def2-svp", mole={"ecp": "def2-svp"})
hf_x2c = of(lambda mole: scf.HF(mole).x2c(), "HF-X2C")
hf_d3 = of(with_dispersion, "HF-D3(BJ)")
hf_smeared = of(smeared, "HF with smearing of 0.05 hartree")
hf_gth = of(scf.HF, "HF", "gth-szv", mole={"pseudo": "gth-pade"})
hf_tdhf = of(scf.HF, "TDHF", excited="TDHF")
lda = of(kohn_sham("lda,vwn"), "SVWN", "sto-3g")
pbe = of(kohn_sham("pbe"), "PBE", "sto-3g")
pbe_grid = of(kohn_sham("pbe"), "PBE with grid response", "sto-3g", gradient=GRID, hessian=GRID)
m06l = of(kohn_sham("m06l"), "M06-L", "sto-3g")
m06l_grid = of(kohn_sham("m06l"), "M06-L with grid response", "sto-3g", gradient=GRID, hessian=GRID)
vv10 = of(kohn_sham("pbe", nlc="vv10"), "PBE-VV10 with grid response", "sto-3g", gradient=GRID)
pbe0_tda = of(kohn_sham("pbe0"), "TDA-PBE0", "sto-3g")
hf_tda_fitted = of(lambda mole: scf.HF(mole).density_fit(), "fitted TDA-HF")
hf_pcm = of(solvated(scf.HF), "HF-IEFPCM")
hf_cpcm = of(solvated(scf.HF, model="C-PCM"), "HF-CPCM")
hf_ssvpe = of(solvated(scf.HF, model="SS(V)PE"), "HF-SSVPE")
hf_cosmo = of(solvated(scf.HF, model="COSMO"), "HF-COSMO")
hf_ddcosmo = of(solvated(scf.HF, "ddCOSMO"), "HF-ddCOSMO")
hf_smd = of(solvated(scf.HF, "SMD"), "HF-SMD")
mp2 = of(lambda mole: mp.MP2(scf.HF(mole)), "MP2")
mp2_fitted = of(lambda mole: mp.MP2(scf.HF(mole).density_fit()), "fitted MP2")
ccsd = of(lambda mole: cc.CCSD(scf.HF(mole)), "CCSD")
ccsd_fitted = of(lambda mole: cc.CCSD(scf.HF(mole).density_fit()), "fitted CCSD")
