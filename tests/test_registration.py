"""Registering functionals: what is refused and how, parameters as differentiable leaves, plug-ins."""

import importlib
import itertools
import math
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import dftfd
from dftfd.autofd import broadcast, compose, dot, exp, function, integrate, laplacian, nabla, sqrt
from dftfd.errors import FunctionalError
from dftfd.functionals import registry
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import gradient_squared, slater_exchange, spin_scaled
from dftfd.functionals.definition import find_term
from dftfd.functionals.densities import SPACE
from dftfd.functionals.numerics import nonnegative
from dftfd.functionals.pairs import guarded, here, integral_over_there, squared_distance, there
from dftfd.functionals.parameters import is_acceptable
from dftfd.functionals.validation import require_valid
from tests.sample import sample


def refused(formula, match, name="t_refused", **options):
    with pytest.raises(FunctionalError, match=match) as caught:
        dftfd.functional(name, **options)(formula)
    assert "\n" not in str(caught.value)
    assert name not in dftfd.list_functionals()


def test_a_rule_for_reverse_mode_is_compared_with_the_slope(forward=(lambda f, x: f(x), lambda f, x: f.fun(x))):
    """jax.custom_vjp with the function itself in its rule, as JAX's pages write it, and without; a wrong rule."""

    def slater(value, factor):
        @jax.custom_vjp
        def code(x):
            return -0.7385587663820223 * x ** (4 / 3)

        code.defvjp(lambda x: (value(code, x), x), lambda x, ct: (-factor * 0.9847450218426964 * x ** (1 / 3) * ct,))
        return lambda n: compose(code, n)

    for k, value in enumerate(forward):
        refused(slater(value, 1.01), "its derivative is", f"t_wrong_rule_{k}")
        found = dftfd.functional(f"t_rule_{k}")(slater(value, 1.0))
        assert found.name == f"t_rule_{k}"


@pytest.mark.parametrize("declare", [registry.term, dftfd.functional])
def test_a_kind_in_words_is_the_kind_that_proofs_ask_for(declare):
    """kind='exchange' of a name that tells nothing: exchange conditions apply; other words are refused."""
    made = declare(f"t_kind_of_{declare.__name__}", kind="exchange")(lambda n: -0.7 * n ** (4 / 3))
    assert made.terms[0][1].kind == "x"
    assert dftfd.prove(made, "ex_nonpositive", {"s": (0, 1)}).proved
    with pytest.raises(FunctionalError, match="one of exchange, correlation"):
        declare("t_kind", kind="x")
    with pytest.raises(FunctionalError, match="the name says correlation"):
        declare("t_lda_c_kind", kind="exchange")


def test_a_sound_functional_is_registered():
    """Decorator, parameters and use by name; the library's names are refused, as are bad formulas of a known name."""

    @dftfd.functional("t_sound", doi="10.1000/none")
    @spin_scaled
    def exchange(n, *, mu=0.2):
        return slater_exchange(n) * (1 + mu * gradient_squared(n) / n ** (8 / 3))

    assert dftfd.get_functional("t_sound", mu=0.3).parameters == {"mu": 0.3}
    with pytest.raises(FunctionalError, match="registered already"):
        dftfd.functional("gga_x_pbe")(lambda n: n)
    with pytest.raises(FunctionalError, match="energy nan"):
        dftfd.functional("t_sound")(lambda n: compose(lambda x: jnp.log(1 - x), n))
    assert dftfd.get_functional("t_sound").terms == exchange.terms


def test_a_name_of_another_class_is_kept_as_plain_text():
    """Its own idea of equality would decide in every look-up that meets it in the table of names."""

    class Name(str):
        def __eq__(self, other):
            raise ZeroDivisionError

        def __hash__(self):
            return hash("pbe")

    dftfd.functional(Name("t_named"))(lambda n: n * n)
    dftfd.register(dftfd.get_functional("t_named"), Name("t_renamed"))
    for name in ("t_named", "t_renamed"):
        assert dftfd.get_functional(name).name == name
    assert {type(name) for name in registry._REGISTRY} == {str}
    assert dftfd.get_functional("pbe").name == "pbe"


def test_wrong_results_are_refused():
    """Shape, kind, precision and complex numbers."""
    refused(lambda rho: rho, r"values of shape \(2,\) at each r; .*one number at each r, expected")
    refused(lambda n: nabla(n), r"values of shape \(3,\) at each r")
    refused(lambda n: 1.0, "returned 1.0, which is not a function of r")
    refused(lambda n: compose(lambda x: x.astype(jnp.complex128), n), "complex128; a real float64")
    refused(lambda n: compose(lambda x: x.astype(jnp.float32), n), "float32; a real float64")
    refused(lambda n: compose(lambda x: x.astype(jnp.float32).astype(jnp.float64) ** 2, n), "float32 on the way")


def test_values_that_are_not_finite_are_refused_with_their_place():
    """log(1 - n) is NaN above n = 1; |grad n| has no derivative where the density is uniform."""
    refused(lambda n: compose(lambda x: jnp.log(1 - x), n), r"energy nan at rho = \(.*\) bohr\^-3")
    refused(lambda n: sqrt(gradient_squared(n)), "derivative of the energy (nan|inf) at .* uniform density")


def test_spin_labels_must_be_interchangeable():
    """Exchanging alpha and beta must not change the energy, unless the author says so."""
    formula = lambda rho: rho[0] ** 2 + 2 * rho[1] ** 2
    refused(formula, r"with the spins exchanged, at rho = \(.*spin_symmetric=False")
    assert dftfd.functional("t_asymmetric", spin_symmetric=False)(formula).name == "t_asymmetric"


def test_models_of_the_potential_are_looked_at_too():
    """Two real numbers at each r that are finite and change places with the spins."""

    def refused(formula, match):
        with pytest.raises(FunctionalError, match=match):
            dftfd.potential("t_refused")(formula)
        assert "t_refused" not in dftfd.list_functionals()

    refused(lambda n: n, r"one value of shape \(\) at each r; \(v_alpha, v_beta\)")
    refused(lambda rho: compose(lambda x: jnp.log(x - 0.3), rho), "nan at rho = ")
    refused(lambda rho: compose(lambda x: -x * jnp.array([1.0, 2.0]), rho), "spins exchanged")
    refused(lambda rho: 1 / 0, "raised ZeroDivisionError")
    model = dftfd.potential("t_model")(lambda rho, *, a=1.0: compose(lambda x: -a * jnp.cbrt(x), rho))
    assert not model.has_energy and model.parameters == {"a": 1.0}


def test_side_effects_are_refused():
    """A formula that counts its calls gives other values when evaluated again."""
    calls = itertools.count(1)
    refused(lambda n: next(calls) * n, "gave .* and then .* at rho")


def test_what_cannot_be_differentiated_is_refused():
    """Host callbacks have no derivative; rounding and stop_gradient have a wrong one."""
    spec = jax.ShapeDtypeStruct((), np.float64)
    refused(lambda n: compose(lambda x: jax.pure_callback(np.square, spec, x), n), "not differentiable")
    refused(lambda n: n * compose(jax.lax.stop_gradient, n), "its derivative is .* the energy's slope")

    @jax.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (square(*primals), primals[0] * tangents[0]))
    refused(lambda n: compose(square, n), "its derivative is .* the energy's slope")


def test_exceptions_in_the_formula_are_told():
    """The message names the functional and the exception on one line."""
    refused(lambda n: n + "one", "'t_refused' raised SignatureError")
    refused(lambda n, *, a=1: 1 / 0, "raised ZeroDivisionError: division by zero")
    refused(lambda n, mu: n, "takes 'mu', which is not an ingredient")


def test_code_of_arrays_is_told_from_code_of_functions():
    """Who writes jnp.exp(n), math.exp(n) or np.exp(n) learns how it is written; SciPy on values, too."""
    told = r"is for arrays, and .* is a function: use the one of dftfd\.autofd \(exp, .* or compose\(code, f\)"
    refused(lambda n: n * jnp.exp(n), told)
    refused(lambda n: n * np.exp(n), told)
    refused(lambda n: n * math.exp(n), r"raised TypeError: .*use dftfd\.autofd\.exp .*compose\(jnp\.exp, n\)")
    refused(lambda n: compose(scipy.special.erf, n), "use jax.numpy and jax.scipy")


def test_errors_that_cannot_be_printed_are_told():
    """An exception whose own text raises."""

    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    def formula(n):
        raise Silent

    refused(formula, r"raised Silent: \(its text cannot be read\)")


def test_what_is_no_formula_is_refused():
    """Numbers, names, functionals, builtins without a signature; a source that is no text."""
    with pytest.raises(FunctionalError, match=r"write @dftfd\.functional\('my_gga_x'\)"):
        dftfd.functional(lambda n: n)
    for wrong in (3.0, None, "pbe", dftfd.exact_exchange):
        refused(wrong, "a formula, def f.*, expected")
    refused(int, "does not tell its arguments")
    refused(lambda n: n, "doi=3: give text, or None", doi=3)


def test_numbers_of_combinations_are_looked_at():
    """Coefficients that are NaN, infinite or complex; parameters that are NaN, or with which the formula fails."""
    own = dftfd.functional("t_own")(lambda n, *, a=1.0: compose(lambda n: n * jnp.sqrt(a + n), n))
    for wrong in (float("nan"), float("inf")):
        for part in (own, dftfd.exact_exchange):
            with pytest.raises(FunctionalError, match=f"{wrong} is not a finite number"):
                wrong * part
    with pytest.raises(FunctionalError, match="coefficient 1j is no real number"):
        1j * own
    with pytest.raises(FunctionalError, match="has the coefficient .*; finite real numbers expected"):
        registry.register(dftfd.Functional("own", ((1j, own.terms[0][1]),)), "t_wrong")
    for wrong in (own.with_parameters(a=float("nan")), dftfd.get_functional("gga_x_pbe", kappa=float("nan"))):
        with pytest.raises(FunctionalError, match="parameter '(a|kappa)' holds NaN"):
            registry.register(wrong, "t_wrong")
    with pytest.raises(FunctionalError, match="has the energy nan"):
        registry.register(own.with_parameters(a=-1e3), "t_wrong")
    assert registry.register(0.5 * own.with_parameters(a=2.0), "t_right").parameters == {"a": 2.0}


def test_other_parameters_of_the_librarys_formulas_are_looked_at(monkeypatch):
    """PBE exchange with kappa = 0 is 0/0 where the density is uniform; the library's own numbers are known to work."""
    for zero in (0.0, 0, np.float64(0), jnp.asarray(0.0)):
        with pytest.raises(FunctionalError, match="'gga_x_pbe' divides by zero with 'kappa' = 0"):
            registry.register(dftfd.get_functional("gga_x_pbe", kappa=zero), "t_wrong")
    assert registry.register(dftfd.get_functional("gga_x_pbe", mu=0.0), "t_slater").parameters["mu"] == 0.0
    rows = dftfd.functional("t_rows")(
        lambda n, *, a=0.0, c=((1.0,), (2.0, 3.0)): a * n + c[1][0] * n**2
    )  # a, unequal c
    assert registry.register(rows.with_parameters(c=((1.0,), (3.0, 3.0))), "t_other_rows").is_semilocal
    with pytest.raises(FunctionalError, match="'vv10' has the energy nan"):
        registry.register(dftfd.get_functional("pbe") + dftfd.get_functional("vv10", C=-1e9), "t_wrong")
    assert registry.register(dftfd.get_functional("pbe", kappa=1.0), "t_right").parameters["kappa"] == 1.0
    monkeypatch.setattr(registry, "require_valid", lambda *_: pytest.fail("looked at"))
    registry.register(dftfd.get_functional("revpbe") + dftfd.get_functional("vv10", b=6.0, C=0.01), "t_known")


def test_a_source_of_functionals_is_asked_by_its_prefix(monkeypatch):
    """As libxc's catalogue is: for functionals, for the terms that need no second look, and for close names."""
    own = registry.term("other:one")(lambda n: -1.0 * n * n)
    ((_, own_term),) = own.terms
    source = registry.Source("other:", {"one": own}.get, {"one": own_term}.get, lambda: ["one"])
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    registry.add_source(source)
    assert registry.lookup("Other:one") is own and find_term("other:one") is own_term
    with pytest.raises(FunctionalError, match="unknown functional 'other:on'; the closest known names are other:one"):
        find_term("other:on")
    monkeypatch.setattr(registry, "require_valid", lambda *_: pytest.fail("looked at"))
    assert registry.register(0.5 * own, "t_half").terms[0][1] == own_term


# ---- double integrals


def weight(f):
    """exp(-|r - r'|^2) on the space of f."""
    return exp(-1.0 * squared_distance(f))


def averaged(n, *, alpha=1.0):
    """The averaged density of docs/nonlocal.md: nonlinear in the integral."""
    return -1.0 * n * nonnegative(integral_over_there(there(n) * exp(-alpha * squared_distance(n)))) ** (1 / 3)


@pytest.mark.slow  # 1.6 s; so would those of the library: two tests below
def test_sound_double_integrals_are_registered():
    """Nonlinear; of Laplacians; alpha here and beta there, whose energy is the same with the spins exchanged."""
    assert dftfd.functional("t_averaged")(averaged).is_nonlocal
    assert dftfd.functional("t_lap")(lambda n: n * integral_over_there(there(laplacian(n)) * weight(n))).is_nonlocal
    assert dftfd.functional("t_crossed")(lambda rho: rho[0] * integral_over_there(there(rho[1]) * weight(rho[0])))
    asymmetric = lambda rho: rho[0] * integral_over_there(there(rho[0]) * weight(rho[0]))
    assert dftfd.functional("t_asymmetric", spin_symmetric=False)(asymmetric)


def test_broken_double_integrals_are_refused_with_their_place():
    """Values that are not finite, at r = r' too; spins; precision; side effects; wrong derivatives; exceptions."""
    pairs = lambda f: f * integral_over_there(there(f) * weight(f))
    refused(lambda n: n * integral_over_there(there(n) / squared_distance(n)), r"energy inf at rho = .*points coincide")
    refused(lambda n: pairs(compose(lambda x: jnp.log(1 - x), n)), r"energy nan at rho = \(.*\) bohr\^-3")
    refused(lambda rho: pairs(rho[0]), r"with the spins exchanged, at rho = \(.*spin_symmetric=False")
    refused(lambda n: pairs(compose(lambda x: x.astype(jnp.float32).astype(jnp.float64), n)), "float32 on the way")
    refused(lambda n: pairs(compose(jax.lax.stop_gradient, n)), "its derivative is .* the energy's slope .* at rho")
    spec = jax.ShapeDtypeStruct((), np.float64)
    called = lambda x: jax.pure_callback(np.square, spec, x, vmap_method="sequential")
    refused(lambda n: pairs(compose(called, n)), "not differentiable")
    refused(lambda n: pairs(compose(scipy.special.erf, n)), "use jax.numpy and jax.scipy")
    calls = itertools.count(1)
    refused(lambda n: next(calls) * pairs(n), "gave .* and then .* at rho")


def test_what_is_no_double_integral_is_refused():
    """Integrals over three points at once can't be computed, so they can't be registered."""

    @guarded
    def triple(n):
        code = lambda r, s, t: jnp.exp(-jnp.sum((r - s) ** 2 + (s - t) ** 2))
        inner = integrate(broadcast(n, (SPACE,) * 3, 2) * function(code, SPACE, SPACE, SPACE), argnums=2)
        return n * integral_over_there(inner * there(n) * here(n))

    refused(triple, "can't be computed on a grid: .*three points")


@pytest.mark.slow  # of others': test_third_derivatives.py
@pytest.mark.parametrize("name", ["vv10", "vdw_df_nl", "rvv10", "hartree"])
def test_the_librarys_double_integrals_would_be_registered(name):
    """Each kind of them passes the look that others' get."""
    ((_, term),) = dftfd.get_functional(name).terms
    require_valid(term)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry._REGISTRY))
@pytest.mark.one_in(3)
def test_the_library_would_be_registered(name):
    """Every formula of the library passes the look that others' formulas get."""
    for _, term in dftfd.get_functional(name).terms:
        require_valid(term)


# ---- parameters


def _energy(functional):
    """Energy of Gaussians on a few points: one number that depends on everything."""
    rho = function(lambda r: jnp.array([0.6, 0.4]) * jnp.exp(-jnp.sum(r * r)), SPACE)
    points = np.random.default_rng(3).normal(size=(12, 3))
    e = functional.energy_density(rho)
    return jnp.sum(jax.vmap(e)(points))


def test_a_functional_is_a_pytree_of_its_numbers():
    """Leaves are coefficients and parameters, in order; the structure holds the rest; round trip."""
    pbe = dftfd.get_functional("pbe0")
    leaves, structure = jax.tree_util.tree_flatten(pbe)
    assert 0.804 in leaves and 0.75 in leaves and 0.25 in leaves
    again = jax.tree_util.tree_unflatten(structure, leaves)
    assert again.parameters == pbe.parameters and again.exact_exchange == pbe.exact_exchange
    other = jax.tree_util.tree_structure(dftfd.get_functional("pbe0", kappa=1.245))
    assert structure == other and hash(structure) == hash(other)
    assert structure != jax.tree_util.tree_structure(dftfd.get_functional("pbe"))


@pytest.mark.parametrize("wrong", ["0.8", None, 0.8 + 1j, np.complex128(1), [0.8]])
def test_parameters_that_are_no_numbers_are_refused(wrong):
    """A number is replaced by a real number, of Python, NumPy or JAX."""
    with pytest.raises(FunctionalError, match="'pbe': parameter 'kappa' is 0.804; .*a real number expected"):
        dftfd.get_functional("pbe", kappa=wrong)
    for number in (1, np.float64(0.9), jnp.asarray(0.9)):
        assert dftfd.get_functional("pbe", kappa=number).parameters["kappa"] == number


@pytest.mark.parametrize(
    "name, parameter, values",
    [
        ("bpbe", "beta", "0.0042 in 'gga_x_b88' and 0.0667.* in 'gga_c_pbe'"),
        ("bp86", "beta", "0.0042 in 'gga_x_b88' and 7.389e-06 in 'gga_c_p86'"),
        ("opbe", "gamma", "0.006 in 'gga_x_optx' and 0.0310.* in 'gga_c_pbe'"),
        ("pw91", "alpha", "100.0 in 'gga_x_pw91' and 0.09 in 'gga_c_pw91'"),
    ],
)
def test_one_name_with_several_values_is_not_set(name, parameter, values):
    """Numbers of different papers that share a letter (B88, PBE, P86, OPTX, PW91); what the message advises works."""
    with pytest.raises(FunctionalError, match=f"'{name}': parameter '{parameter}' is {values}; one value") as told:
        dftfd.get_functional(name, **{parameter: 0.05})
    first, other = (t.name for _, t in dftfd.get_functional(name).terms)
    assert f"get_functional('{first}', {parameter}=...) + get_functional('{other}')" in str(told.value)
    advised = dftfd.get_functional(first, **{parameter: 0.05}) + dftfd.get_functional(other)
    unchanged = dftfd.get_functional(name).terms[1][1].parameters[parameter]
    assert [t.parameters[parameter] for _, t in advised.terms] == [0.05, unchanged]


def test_one_name_with_one_value_is_set_everywhere():
    """The two parts of CAM-B3LYP's B88 exchange share beta; the derivative by both is a central difference's."""
    changed = dftfd.get_functional("camb3lyp").semilocal_part.with_parameters(beta=0.005)
    assert [t.parameters["beta"] for _, t in changed.terms if "beta" in t.parameters] == [0.005, 0.005]
    both = dftfd.get_functional("gga_x_pbe") + 0.5 * dftfd.get_functional("gga_x_rpbe")
    energy = lambda kappa: _energy(both.with_parameters(kappa=kappa).with_parameters(mu=0.2))
    step = 1e-5
    numerical = float(energy(0.804 + step) - energy(0.804 - step)) / (2 * step)
    assert float(jax.grad(energy)(0.804)) == pytest.approx(numerical, rel=1e-8)
    within = jax.jit(lambda f: _energy(f.with_parameters(kappa=1.0)))(both)  # the values that are replaced are traced
    assert float(within) == pytest.approx(float(_energy(both.with_parameters(kappa=1.0))), rel=1e-13)


def test_series_keep_their_lengths():
    """As many real numbers as the formula has, in a tuple, list or array, traced or not; a network is any."""
    for name, length in (("b97m_v", 5), ("b97d", 3), ("wb97xv", 3)):
        for wrong in ((1.0,), (1.0,) * 6, (), 1.0, "abc", None, (1j,) * length, ("1",) * length, ((1.0,),) * length):
            with pytest.raises(FunctionalError, match=rf"'c_x' is \(.*real numbers of shape \({length},\) expected"):
                dftfd.get_functional(name, c_x=wrong)
        for right in ((1.0,) * length, [1] * length, np.ones(length), jnp.ones(length), tuple(jnp.ones(length))):
            assert len(dftfd.get_functional(name, c_x=right).parameters["c_x"]) == length
    with pytest.raises(FunctionalError, match="'kappa' is 0.804; .* a real number expected"):
        dftfd.get_functional("pbe", kappa=np.ones(3))
    assert is_acceptable((1, (2.0, [3])), (0, (0.0, (1.0,)))) and not is_acceptable((1, (2.0,)), (0, (0.0, (1.0,))))
    assert is_acceptable((jnp.ones((2, 3)), jnp.ones(2)), (jnp.ones((4, 3)), jnp.ones(4)))  # layers of a network


def in_powers(n, *, c_x=(1.0, 0.3, 0.2, 0.1, 0.05)):
    return n**2 - sum(c * n ** ((4 + k) / 3) for k, c in enumerate(c_x))


@pytest.mark.parametrize("name", sample(["powers", "hcth93"], ["powers"]))
def test_series_are_replaced_and_derived_as_arrays(name):
    """The energy is linear in c_x."""
    own = Functional("powers", ((1.0, EnergyTerm.from_formula(in_powers, "powers")),))
    functional = own if name == "powers" else dftfd.get_functional(name)
    energy = lambda c_x: _energy(functional.with_parameters(c_x=c_x))
    c_x = jnp.array(functional.parameters["c_x"])
    assert float(energy(c_x)) == pytest.approx(float(_energy(functional)), rel=1e-13)
    slope = jax.jit(jax.grad(energy))(c_x)
    rest = float(energy(jnp.zeros(5)))
    assert float(slope @ c_x) == pytest.approx(float(energy(c_x)) - rest, rel=1e-10)


@pytest.mark.slow  # 1.3 s; such derivatives: two tests above
def test_derivatives_with_respect_to_parameters():
    """dE/d(kappa) and dE/d(coefficient) against central differences and linearity."""
    pbe = dftfd.get_functional("pbe")
    slope = jax.grad(_energy)(pbe)
    step = 1e-5
    up, down = (_energy(pbe.with_parameters(kappa=0.804 + s * step)) for s in (1, -1))
    assert float(slope.parameters["kappa"]) == pytest.approx(float(up - down) / (2 * step), rel=1e-8)
    exchange = _energy(dftfd.get_functional("gga_x_pbe"))
    assert float(slope.terms[0][0]) == pytest.approx(float(exchange), rel=1e-12)


def test_other_parameters_do_not_compile_again():
    """A jitted function of a functional is traced once for all parameter values, and gives each its energy."""
    traces = []

    @jax.jit
    def energy(functional):
        traces.append(1)
        return _energy(functional)

    for kappa in (0.804, 1.245, 0.9):
        f = dftfd.get_functional("gga_x_pbe", kappa=kappa)
        assert float(energy(f)) == pytest.approx(float(_energy(f)), rel=1e-13)
    assert len(traces) == 1


# ---- plug-ins


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """A function that installs a fake distribution with functionals into a temporary path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(project, module, code, entries):
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        info = tmp_path / f"{project.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[dftfd.functionals]\n{lines}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


PLUGIN = """
    import dftfd

    @dftfd.functional("t_plugin_x")
    def exchange(n, *, a=2.0):
        return a * n
    """


def test_plugins_are_listed_and_loaded_when_asked_for(distribution):
    """The name is known before the module is imported; then the functional is used like any other."""
    distribution("t-plugin", "t_plugin_module", PLUGIN, {"t_plugin_x": "t_plugin_module:exchange"})
    assert "t_plugin_x" in dftfd.list_functionals()
    assert "t_plugin_module" not in sys.modules
    assert dftfd.get_functional("t_plugin_x").parameters == {"a": 2.0}
    assert "t_plugin_module" in sys.modules
    assert dftfd.get_functional("0.5*t_plugin_x + 0.5*lda_x").terms[0][0] == 0.5


def test_a_broken_plugin_spoils_only_itself(distribution):
    """It is listed; asking for it tells what happened; everything else works."""
    distribution("t-broken", "t_broken_module", "import no_such_module_anywhere", {"t_broken_x": "t_broken_module:f"})
    distribution("t-wrong", "t_wrong_module", "f = 3", {"t_wrong_x": "t_wrong_module:f"})
    assert {"t_broken_x", "t_wrong_x", "pbe"} <= set(dftfd.list_functionals())
    assert dftfd.get_functional("pbe").name == "pbe"
    with pytest.raises(FunctionalError, match="t-broken.*ModuleNotFoundError"):
        dftfd.get_functional("t_broken_x")
    with pytest.raises(FunctionalError, match="gives a int; a Functional"):
        dftfd.get_functional("t_wrong_x")
    distribution("t-leaving", "t_leaving_module", "import sys; sys.exit(1)", {"a_leaving_x": "t_leaving_module:f"})
    with pytest.raises(FunctionalError, match="t-leaving.*SystemExit"):
        dftfd.get_functional("a_leaving_x")
    assert find_term("gga_x_mpw91_pw6b95").parameters["b"] == 0.00538  # a part of pw6b95 without a name of its own
    with pytest.raises(FunctionalError, match="unknown functional 'no_such_x'"):
        find_term("no_such_x")


def test_plugins_with_names_that_exist_are_refused(distribution):
    """Two plug-ins of one name; a registration under a plug-in's name; the library's own names stay its own."""
    distribution("t-one", "t_one_module", PLUGIN, {"t_twice_x": "t_one_module:exchange"})
    distribution(
        "t-two", "t_two_module", PLUGIN, {"t_twice_x": "t_two_module:exchange", "pbe": "t_two_module:exchange"}
    )
    with pytest.raises(FunctionalError, match="several plug-ins offer"):
        dftfd.get_functional("t_twice_x")
    with pytest.raises(FunctionalError, match="plug-in offers a functional"):
        dftfd.functional("t_twice_x")(lambda n: n)
    assert dftfd.get_functional("pbe").terms[0][1].name == "gga_x_pbe"


def test_dot_products_of_user_formulas():
    """A formula written with operators alone, without the library's helpers, is accepted."""
    f = dftfd.functional("t_operators")(lambda n: dot(nabla(n), nabla(n)) / (8 * n))
    assert f.ingredients == {"n"}


def test_no_module_takes_the_place_of_a_public_decorator():
    """`dftfd.potential` is the decorator; a module of that name would replace it when imported."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("dftfd.potential")
    assert callable(dftfd.potential)
