"""libxc's catalogue: what is served agrees with libxc, what is not answers with its reason."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pyscf.dft import numint as pyscf_numint

import dftfd
from dftfd.errors import FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.functionals import catalogue, jax_xc_formula
from dftfd.functionals.definition import from_definition
from dftfd.interop import libxc
from dftfd.interop.pyscf import numint
from dftfd.verify.point_comparison import compare
from dftfd.verify.sampling import sample
from dftfd.xc.pointwise import pointwise_kernel

needs_jax_xc = pytest.mark.skipif(not jax_xc_formula.is_installed(), reason="no jax-xc for this Python")

KINDS = [
    *("lda_c_ow", "gga_c_sg4", "gga_k_lgap", "hyb_gga_xc_mpwlyp1m", "mgga_x_ms2"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gga_x_ityh", "mgga_c_kcis")),
]


def evaluated(functional, x, n_spin):
    """(energy, first derivatives) at points, without compilation."""
    kernel = pointwise_kernel(functional, n_spin)
    (energy,), slopes = kernel(x, 1, compiled=False)
    first = np.zeros_like(x)
    first[list(kernel.used)] = slopes
    return energy, first


@needs_jax_xc
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_agrees_with_libxc_on_other_points(name):
    """Energy to 1e-9 and first derivatives to 1e-7 on the points of `dftfd check`, not those of verify.py."""
    for n_spin in (1, 2):
        x = sample(n_spin, "dense", 200)
        ours = evaluated(catalogue.build(name).semilocal_part, x, n_spin)
        reference = libxc.reference([(1.0, name)], x, n_spin, order=1)
        reference = reference._replace(second=None)
        for quantity, error in compare((*ours, None), reference, x, n_spin).items():
            assert error.max() < (1e-9 if quantity == "e" else 1e-7), (n_spin, quantity)


@needs_jax_xc
def test_a_served_name_is_a_functional_like_any_other():
    """It adds and scales, takes parameters, has a potential; the library's own functional answers a shared name."""
    assert dftfd.get_functional("gga_x_pbe").terms[0][1].name == "gga_x_pbe"
    theirs = dftfd.get_functional("libxc:gga_x_pbe")
    assert theirs.terms[0][1].name == "libxc:gga_x_pbe" and theirs.name == "libxc:gga_x_pbe"
    x = sample(2, "dense", 50)
    energies = lambda f: evaluated(f, x, 2)[0]
    np.testing.assert_allclose(energies(theirs), energies(dftfd.get_functional("gga_x_pbe")), rtol=1e-12)
    changed = energies(dftfd.get_functional("libxc:gga_x_pbe", kappa=1.245))
    np.testing.assert_allclose(changed, energies(dftfd.get_functional("revpbe,")), rtol=1e-9)
    half = energies(dftfd.get_functional("0.5*libxc:gga_x_pbe + 0.5*gga_x_pbe"))
    np.testing.assert_allclose(half, energies(theirs), rtol=1e-12)


@pytest.mark.slow  # 0.5 s; those of the library do: test_registration
@needs_jax_xc
def test_parameters_keep_their_shapes():
    """A list of another length is refused, since JAX would read on beyond the end of a short array."""
    hcth = dftfd.get_functional("libxc:gga_xc_hcth_407")
    x = sample(2, "dense", 5)
    assert np.all(evaluated(hcth.with_parameters(c_x=(1.0, 0.0, 0.0, 0.0, 0.0)), x, 2)[0] != evaluated(hcth, x, 2)[0])
    ((coefficient, term),) = hcth.terms
    for wrong in ((1.0,), np.ones(6), 1.0):
        with pytest.raises(FunctionalError, match=r"parameter 'c_x' is \(.*real numbers of shape \(5,\) expected"):
            hcth.with_parameters(c_x=wrong)
        loaded = replace(hcth, terms=((coefficient, term.with_parameters({"c_x": wrong})),))
        with pytest.raises(FunctionalError, match=r"'c_x' of libxc's kernel .* has shape \(5,\)"):
            evaluated(loaded, x, 2)


@pytest.mark.parametrize(
    "name, reason",
    [
        ("hyb_gga_xc_camy_b3lyp", r"screened by exp\(-omega r\)"),
        ("libxc:gga_x_lb", "no energy"),
        ("lda_x_1d_soft", "int1, which jax-xc does not have"),
        ("libxc:mgga_x_ktbm_0", "libxc 6.0"),
        ("gga_x_lag", "libxc 7 changed it"),
    ],
)
def test_what_is_not_served_says_why(name, reason):
    """The reason of docs/catalogue.md, as an error of the name."""
    with pytest.raises(UnsupportedError, match=reason):
        dftfd.get_functional(name)


@pytest.mark.slow  # 2 s for 588 names
@needs_jax_xc
def test_every_served_name_comes_back_from_its_definition():
    """Same formulas, coefficients and parameters, those with omega and those of refused names inside others too."""
    for name in catalogue.names():
        f = dftfd.get_functional(f"libxc:{name}")
        again = from_definition(json.loads(json.dumps(f.definition)), f.name)
        assert again.exact_exchange == f.exact_exchange and len(again.terms) == len(f.terms), name
        for (a, s), (b, t) in zip(again.terms, f.terms, strict=True):
            assert a == b and s.formula is t.formula and dict(s.parameters) == dict(t.parameters), name


def test_every_name_of_libxc_has_a_verdict():
    """Served or refused, never both; and a name that libxc does not have is unknown."""
    verdicts = catalogue.verdicts()
    assert not verdicts["verified"].keys() & verdicts["refused"].keys()
    assert {*libxc.names(), *catalogue.table()} == verdicts["verified"].keys() | verdicts["refused"].keys()
    with pytest.raises(FunctionalError, match="libxc:gga_x_pbe_"):
        dftfd.get_functional("libxc:gga_x_pbe_molecule")


def test_verified_errors_are_within_the_limits():
    """The recorded errors at the 99th percentile of 588 names: 1e-9 for energies, 1e-7 for first derivatives."""
    assert len(catalogue.names()) == 588
    for name, (energy, slope) in catalogue.verdicts()["verified"].items():
        assert energy <= 1e-9 and slope <= 1e-7, name


def test_without_jax_xc_its_names_say_so(monkeypatch):
    """The error names the package, its version and for which Python it exists; other names work."""
    monkeypatch.setattr(jax_xc_formula, "is_installed", lambda: False)
    with pytest.raises(MissingDependencyError, match=r"jax-xc 0\.0\.11, which is not installed"):
        dftfd.get_functional("libxc:gga_x_pbe_mol")
    assert dftfd.get_functional("pbe").name == "pbe"


@needs_jax_xc
def test_catalogued_hybrids_reach_pyscf():
    """Exact exchange of a hybrid of the catalogue is read by PySCF as libxc's own."""
    ours, theirs = numint("hyb_gga_xc_lc_blyp"), pyscf_numint.NumInt()
    expected = theirs.rsh_and_hybrid_coeff("hyb_gga_xc_lc_blyp")
    assert ours.rsh_and_hybrid_coeff("") == pytest.approx(expected, abs=1e-15)
