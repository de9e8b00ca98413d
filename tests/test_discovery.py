"""Discovery: trees, files, fits, conditions, proposers, and a search that goes on from its record."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import dftfd
from dftfd.cli import main
from dftfd.discovery.candidate_fits import (
    CORRECTION,
    FAR_S,
    LARGEST_P,
    VARIABLES,
    Cut,
    Demands,
    Fitter,
    Problem,
    Sampled,
    at_cuts,
    cut_of,
    left_sides,
    proof_of,
)
from dftfd.discovery.damping import moved, with_damping_slopes, with_dispersion
from dftfd.discovery.expressions import (
    FUNCTIONS,
    INGREDIENTS,
    NUMPY,
    at_points,
    canonical,
    is_valid,
    parameters,
    parsed,
    python,
    skeleton,
    with_slopes,
)
from dftfd.discovery.forms import (
    Candidate,
    Form,
    Gas,
    as_functional,
    exchange_ingredients,
    file_text,
    native_correlation,
    native_exchange,
)
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.proposers import Enumeration, Evolution, Growth, Member, Population, candidates_in
from dftfd.discovery.running import read
from dftfd.errors import CheckpointError, DftfdError, FileError, InputError
from dftfd.functionals.named_files import functional_in_file
from dftfd.functionals.registry import get_functional
from dftfd.verify.inequality import condition_of
from dftfd.verify.model_systems import energy
from dftfd.verify.proofs import _sampled

RNG = np.random.default_rng(4)
AT = {name: 3 * RNG.random(24) for name in INGREDIENTS} | {name: 2 * RNG.random(24) - 1 for name in ("d", "b", "w")}
FORMULAS = [
    "0.804*u(0.27*s2)",
    "0.1*s2/(1 + 0.3*x_asinh_x(60.0*s2))",
    "0.3*d*s2 + 0.1*w**3*exp(-2.0*s2)*s2",
    "0.5*s2*exp(-0.1*s2)*exp(-0.2*s2**2)",
    "0.3*log1p(0.1*s2)*sqrt(1 + 0.4*s2) - 0.2*u(0.5*alpha*s2)**2",
    "0.2*t2*inv(2.0*t2*sqrt1p(rs))*z2",
]


# ---- Trees.


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_read_and_written(text):
    """Text to tree to text to tree: the same tree. Its values are Python's own of the text."""
    tree = parsed(text)
    assert parsed(python(tree)) == tree
    own = {"x_asinh_x": NUMPY["ash"], "u": NUMPY["u"], "inv": NUMPY["inv"], "sqrt1p": NUMPY["sqrt"]}
    own |= {"exp": np.exp, "log1p": np.log1p, "sqrt": np.sqrt}
    expected = eval(text, own | AT)  # noqa: S307  a text of this file
    assert at_points(tree, AT) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("text", FORMULAS)
def test_slopes_are_those_of_complex_steps(text):
    """Derivatives by parameters against complex steps of the value."""
    tree = parsed(text)
    p = [leaf[1] for leaf in parameters(tree)]
    total, slopes = with_slopes(tree, AT, p)
    assert np.allclose(total, at_points(tree, AT), rtol=1e-14)
    for k in range(len(p)):
        moved, _ = with_slopes(tree, AT, [complex(x, 1e-25 * (j == k)) for j, x in enumerate(p)])
        assert np.allclose(slopes[k], moved.imag / 1e-25, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_small_and_large_arguments_keep_their_derivatives(name):
    """Against differences; arsinh's is a series near zero."""
    x, code = np.array([0.0, 1e-12, 1e-7, 1e-4, 0.5e-3, 2e-3, 0.3, 40.0]), FUNCTIONS[name]
    y, h = x + 0.1, 1e-5 * (1 + x)
    assert np.allclose(code.slope(y), (code.value(y + h) - code.value(y - h)) / (2 * h), rtol=1e-6)
    assert np.all(np.isfinite([code.value(x), code.slope(x)]))
    assert code.slope(1e-9) == pytest.approx(code.slope(1e-4), rel=1e-3)


def test_equal_candidates_are_found_equal():
    """Order, nesting, split coefficients, s2/(1 + b s2) for u, products of exponentials, powers."""
    pairs = [
        ("0.8*u(0.3*s2) + 0.1*s2", "0.2*s2 + 0.7*u(0.2*s2)"),
        ("0.2*s2/(1 + 0.27*s2)", "0.8*u(0.3*s2)"),
        ("0.5*s2*exp(-0.1*s2)*exp(-0.2*s2**2)", "1.0*exp(-(0.3*s2**2 + 0.3*s2))*s2"),
        ("0.2*(1.3*s2 + 0.4*s2*s2)", "0.1*s2**2 + 0.3*s2"),
        ("0.1*s2 + 0.3*s2", "0.1*s2"),
        ("2.0*(3.0*s2)**2", "0.5*s2**2"),
    ]
    for a, b in pairs:
        assert skeleton(parsed(a)) == skeleton(parsed(b)), (a, b)
    assert skeleton(parsed("0.1*u(0.2*s2)")) != skeleton(parsed("0.1*log1p(0.2*s2)"))


@pytest.mark.parametrize("seed", range(2))
def test_the_canonical_form_is_the_same_function(seed):
    """40 random sums and products: values stay, and a second pass changes nothing."""
    rng, form = np.random.default_rng(seed), Form("hole", "", ("s2", "alpha", "d", "w"))
    evolution, members = Evolution(form, 40), []
    for _ in range(40):
        tree = evolution.term("x", rng) if not members else members[rng.integers(len(members))]
        raw = ("+", tree, ("*", evolution.term("x", rng), evolution.factor("x", rng)))
        found = canonical(raw)
        with np.errstate(all="ignore"):
            assert np.allclose(at_points(raw, AT), at_points(found, AT), rtol=1e-9)
        assert canonical(found) == found == parsed(python(found))
        members = [*members[-5:], found] if len(str(found)) < 2000 else []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s2 +", "not a formula"),
        ("__import__('os').system('x')", "not known"),
        ("s2.real", "not known"),
        ("0.1*q", "not known"),
        ("s2**0.5", "not known"),
        ("0.1/s2", r"1 \+"),
        ("9" * 5000, "characters"),
        ("(" * 500 + "s2" + ")" * 500, "not a formula"),
    ],
)
def test_what_is_no_formula_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        parsed(text)


def test_a_hole_vanishes_in_the_uniform_gas_and_divides_by_nothing_that_can_vanish():
    assert is_valid(parsed("0.1*s2*inv(2.0*alpha)"), ("s2", "alpha"))
    assert not is_valid(parsed("0.1*s2"), ("alpha",))  # another ingredient
    assert not is_valid(parsed("0.1*alpha"), ("s2", "alpha"))  # 1 in the uniform gas
    assert not is_valid(parsed("0.1*s2*u(1.0*d)"), ("s2", "d"))  # d can be -1
    assert is_valid(parsed("0.1*s2*u(1.0*d**2)"), ("s2", "d"))
    assert not is_valid(("u", ("*", ("c", 0.1), ("v", "s2"))), ("s2",))  # a parameter of either sign


# ---- Functionals.

CANDIDATES = [
    (
        Form("hole", "pbe", ("s2", "alpha", "d", "w"), ("y", "d")),
        "0.8*u(0.3*s2) + 0.1*d*s2*exp(-0.1*alpha) + 0.2*w**2",
        "1.0*y + 0.3*d*u(1.0*y)",
    ),
    (Form("hole", "factor", ("s2",), ("t2", "rs", "z2")), FORMULAS[1], "0.3*t2*inv(2.0*t2)*sqrt1p(0.1*rs) + 0.1*t2*z2"),
    (Form("hole", "gga_c_pbe"), FORMULAS[0], None),
    (Form("hole", "factor", ("s2", "b"), ("t2", "b")), "0.1*b + 0.2*s2*b**2", "-0.4*u(8.0*t2) + 0.1*b*inv(0.3*t2)"),
]


def gas_of(count, seed):
    """Random points (r_s, zeta, s^2, alpha)."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 4, count), rng.uniform(0, 0.95, count), rng.uniform(0, 4, count), rng.uniform(0, 3, count)


slow = pytest.mark.slow  # two more functionals are traced; many fits


@pytest.mark.parametrize(
    ("form", "x", "c"), [CANDIDATES[2], *(pytest.param(*case, marks=slow) for case in (*CANDIDATES[:2], CANDIDATES[3]))]
)
def test_the_written_file_is_the_tree(form, x, c, tmp_path):
    """Energies per volume at spin-polarised points of the loaded file, from the tree with spin scaling by hand."""
    candidate = Candidate(parsed(x), None if c is None else parsed(c))
    name = f"t_found_{CANDIDATES.index((form, x, c))}"
    path = tmp_path / "own.py"
    path.write_text(file_text(form, candidate, name, ["A note."]))
    corrected = tmp_path / "corrected.py"
    corrected.write_text(file_text(form, candidate, f"{name}_d3", dispersion=("d3bj", "revpbe")))
    assert functional_in_file(f"{corrected}:{name}_d3").dispersion == get_functional("revpbe-d3bj").dispersion
    loaded, made = functional_in_file(f"{path}:{name}"), as_functional(form, candidate, name)
    rs, zeta, s2, alpha = gas_of(40, 1)
    n = 3 / (4 * np.pi * rs**3)
    shares, unit = np.array([1 + zeta, 1 - zeta]) / 2, 0.3 * (3 * np.pi**2) ** (2 / 3)
    sigma = 4 * (3 * np.pi**2) ** (2 / 3) * s2 * n ** (8 / 3)
    tau = unit * n ** (5 / 3) * alpha * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3)) / 2 + sigma / (8 * n)
    pairs = np.array([shares[0] ** 2, shares[0] * shares[1], shares[1] ** 2]) * sigma
    rows = np.concatenate([shares * n, pairs, 0 * shares, shares * tau])
    expected = np.zeros(40)
    for share in shares:
        m, own, t = 2 * share * n, 4 * share**2 * sigma, 2 * share * tau
        s2_s = own / (4 * (3 * np.pi**2) ** (2 / 3) * m ** (8 / 3))
        alpha_s = (t - own / (8 * m)) / (unit * m ** (5 / 3))
        F = 1 + at_points(candidate.x, exchange_ingredients(s2_s, alpha_s))
        expected -= 0.5 * 0.75 * (3 / np.pi) ** (1 / 3) * m ** (4 / 3) * F
    if candidate.c is None:
        expected += n * native_correlation("gga_c_pbe", rs, zeta, s2, alpha)
    else:
        gas = Gas.of(form, rs, zeta, s2, alpha)
        expected += n * gas.energy(at_points(candidate.c, gas.at))
    for functional in (loaded, made):
        assert energy(functional, rows) == pytest.approx(expected, rel=1e-12)


def test_pbe_is_a_member_of_both_forms():
    """PBE correlation is the hole y of the form 'pbe', PBE exchange 0.804 u(mu s^2 / 0.804)."""
    rs, zeta, s2, alpha = gas_of(50, 2)
    gas = Gas.of(Form("hole", "pbe"), rs, zeta, s2, alpha)
    found = gas.energy(at_points(parsed("1*y"), gas.at))
    assert found == pytest.approx(native_correlation("gga_c_pbe", rs, zeta, s2, alpha), rel=1e-12)
    mu = 0.2195149727645171
    F = 1 + at_points(parsed(f"0.804*u({mu / 0.804!r}*s2)"), {"s2": s2})
    assert native_exchange("gga_x_pbe", s2, alpha) == pytest.approx(F, rel=1e-14)


def test_the_potential_of_b_stays_finite_in_a_density_tail():
    """de_x/dtau is proportional to n^(-1/3) dF_x/dalpha: in the tail of hydrogen it falls for b and w, not for d."""
    r = np.array([2.0, 5.0, 10.0, 20.0])
    n = np.exp(-2 * r) / np.pi
    s2, h = (2 * n / (2 * (3 * np.pi**2) ** (1 / 3) * n ** (4 / 3))) ** 2, 1e-6
    above, below = (exchange_ingredients(s2, 0 * s2 + x) for x in (h, 0.0))
    v_tau = {name: n ** (-1 / 3) * (above[name] - below[name]) / h for name in ("d", "b", "w")}
    assert all(np.all(np.diff(np.abs(v_tau[name])) < 0) for name in ("b", "w"))
    assert np.abs(v_tau["d"][-1]) > 1e5 * np.abs(v_tau["d"][0])


# ---- Conditions.

BOTH = Form("hole", "factor", ("s2", "alpha", "d"), ("t2", "d"))
BROKEN = Candidate(parsed("0.8*u(0.3*s2) + 0.1*d*s2"), parsed("-1.0*u(1.0*t2) + 0.2*d*u(1.0*t2)"))
NAMES = ["ex_nonpositive", "ec_nonpositive", "ec_scaling", "uc_monotone", "lieb_oxford", "tc_upper"]


@pytest.mark.parametrize(
    "condition", ["ex_bounded", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ec_scaling", "lieb_oxford"))]
)
def test_left_sides_are_those_of_the_prover(condition):
    """Series of trees in NumPy against the prover's enclosures of the traced functional, polarised too."""
    domain = {"rs": (1e-2, 5.0), "s": (0.0, 5.0), "alpha": (0.0, 5.0), "zeta": (0.0, 0.9)}
    inequality = condition_of(as_functional(BOTH, BROKEN), condition, domain)
    x, sides = _sampled(inequality)
    points = np.array([x[inequality.names.index(name)] for name in VARIABLES])
    found = left_sides(BOTH, [condition] * points.shape[1], range(points.shape[1]), points).values(BROKEN)
    middle = 0.5 * (sides.value.r.lo + sides.value.r.hi)
    assert np.abs(found - middle).max() < 1e-7


def test_slopes_of_cuts_are_differences():
    cuts = at_cuts(BOTH, [Cut(name, (1.0, 0.7, 0.5, 0.3)) for name in NAMES])
    p, h = BROKEN.parameters, 1e-4
    g, G = cuts.with_slopes(BROKEN, p)
    assert np.allclose(g, cuts.values(BROKEN), rtol=1e-13)
    for k, move in enumerate(h * np.eye(len(p))):
        ends = [cuts.values(BROKEN.at(p + sign * move)) for sign in (1, -1)]
        assert np.allclose(G[:, k], (ends[0] - ends[1]) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("on_nodes", [False, True])
def test_where_a_formula_has_no_value_conditions_do_not_hold(on_nodes):
    """ln(1 + w u(y (1 + h))) may have none where h is below -1: neither cuts nor samples pass over it, and the rows of
    reactions beside a cut keep their values."""
    form, demands = Form("", "pbe", (), ("t2",)), Demands.of(["ec_nonpositive"], {})
    worse = Candidate(None, parsed("-0.5*t2"))
    problem = Problem.of_points(replace(POINTS, c_s2=0.01 * POINTS.c_s2), form, on_nodes)
    both = problem.with_rows(at_cuts(form, [Cut("ec_nonpositive", (1.0, 1.29, 1.0, 0.0))]))
    for found in (both.values(worse), both.with_slopes(worse, worse.parameters)[0]):
        assert np.isnan(found[-1]) and np.allclose(found[:-1], problem.values(worse), rtol=1e-12)
    assert Sampled(form, demands, 100, 0).broken(worse)[0].value is None


def test_a_needle_passes_sampling_and_is_refuted_by_proof():
    """F_x < 0 within 1e-5 of s = 2: 10,000 random points pass it, the prover does not."""
    form = Form("hole", "", ("s2",))
    demands = Demands.of(["ex_nonpositive"], {})
    needle = Candidate(parsed("-1.2*exp(-1000000000.0*(s2*s2 + 16 - 8*s2))*s2*0.25*1.0"))
    assert needle.c is None and not is_valid(needle.x, ("s2",))  # s2^2 - 8 s2 + 16 >= 0 is not seen by structure
    assert Sampled(form, demands, 10_000, 0).broken(needle) == []
    proof = proof_of(form, needle, "ex_nonpositive", demands)
    assert proof.outcome == "violated", proof
    assert abs(cut_of(proof).point[1] - 2.0) < 1e-2


def test_some_conditions_count_for_polarised_densities_alone():
    """1 - 30 t^2 zeta^2 gives E_c > 0, where no condition of zeta = 0 sees it."""
    form, names = Form("", "factor", (), ("t2", "z2")), ["ec_nonpositive", "ec_scaling"]
    candidate, domain = Candidate(None, parsed("-30.0*t2*z2")), {"zeta": (0.0, 0.9)}
    for polarised, broken in ((None, {names[0]}), (names[:1], {names[0]}), (names[1:], set())):
        demands = Demands.of(names, domain, polarised=polarised)
        found = Sampled(form, demands, 512, 0).broken(candidate)
        assert {cut.condition for cut in found} == broken and all(cut.point[3] > 0 for cut in found)
        assert proof_of(form, candidate, names[0], demands).outcome == ("violated" if broken else "proved")


def test_samples_reach_the_ends_of_a_wide_domain():
    """Half of the points are evenly in s / (1 + s), so that s of 0 to 5 and of 100 to 1000 are both seen."""
    points = Demands.of(["ec_nonpositive"], {"s": (0.0, 1000.0), "alpha": (0.0, 1000.0)}).points(1000, 0)
    for name in ("s", "alpha"):
        x = points[VARIABLES.index(name)]
        assert x.min() >= 0 and x.max() <= 1000 and np.sum(x < 5) > 300 and np.sum(x > 100) > 300


# ---- Fits and proposals.


def made_points(exchange="gga_x_pbe", molecules=24, seed=0) -> TrainingPoints:
    """Points drawn at random, energies of a functional of the library as data; every other one for validation."""
    rng, size = np.random.default_rng(seed), 80
    offsets, many = np.arange(molecules + 1) * size, molecules * size
    x = -rng.random(many) * 0.1, rng.gamma(1.5, 0.6, many), rng.gamma(2, 0.7, many)
    c = (
        rng.random(many) * 0.1,
        rng.uniform(0.3, 3, many),
        rng.random(many) * 0.5,
        rng.gamma(1.5, 0.6, many),
        rng.gamma(2, 0.7, many),
    )
    texts = tuple(f"m{k}" for k in range(molecules))
    role = tuple("validation" if k % 2 else "training" for k in range(molecules))
    points = TrainingPoints(
        texts,
        np.zeros(molecules),
        offsets,
        *x,
        offsets,
        *c,
        np.eye(molecules),
        np.zeros(molecules),
        np.ones(molecules),
        texts,
        ("made",) * molecules,
        role,
    )
    return replace(points, reference=points.sum_x(native_exchange(exchange, points.x_s2, points.x_alpha)))


ALONE = Form("hole", "", ("s2",))
POINTS = made_points()


def test_a_fit_finds_the_parameters_of_its_data():
    problem = Problem.of_points(POINTS.of("training"), ALONE)
    found = Fitter(problem).fit(Candidate(parsed("0.1*u(1.0*s2)")), 60).candidate
    assert problem.mean_absolute(found) < 1e-5
    assert found.parameters == pytest.approx([0.804, 0.2195149727645171 / 0.804], rel=1e-6)


def test_a_fit_finds_b88_from_parameters_far_away():
    """F_x = 1 + beta x^2 / (1 + 6 beta x arsinh x) / |C|: x = 7.796 s, from x = s and a denominator forty times too
    large; the form is one of the first that the enumeration proposes."""
    problem = Problem.of_points(made_points("gga_x_b88").of("training"), ALONE)
    start = Candidate(parsed("0.1*s2*inv(1.0*x_asinh_x(1.0*s2))"))
    found = Fitter(problem).fit(start, 100).candidate
    assert problem.mean_absolute(found) < 1e-5
    assert found.parameters[1:] == pytest.approx([6 * 0.0042, (48 * np.pi**2) ** (2 / 3)], rel=1e-4)
    steep = Fitter(problem).fit(Candidate(parsed("0.1*u(99.0*s2*s2) + 0.1*u(99.0*s2)")), 100).candidate
    assert np.all(steep.parameters[1::2] <= LARGEST_P * (1 + 1e-12))
    steep = Fitter(problem, largest=10.0).fit(steep, 100).candidate
    assert np.all(steep.parameters[1::2] <= 10 * (1 + 1e-12))
    proposed = [c.key for c, _ in Enumeration(ALONE).propose(Population([], []), RNG, 200)]
    assert proposed.index(start.key) < 150


def test_slopes_of_reaction_energies_are_differences():
    for form in (BOTH, replace(BOTH, correlation="pbe", c=("y", "d"))):
        candidate = Candidate(BROKEN.x, parsed("1.0*y + 0.2*d*u(1.0*y)")) if form.correlation == "pbe" else BROKEN
        problem = Problem.of_points(POINTS.of("training"), form)
        p, h = candidate.parameters, 1e-6
        errors, J = problem.with_slopes(candidate, p)
        assert np.allclose(errors, problem.values(candidate), rtol=1e-12)
        for k, move in enumerate(h * np.eye(len(p))):
            ends = [problem.values(candidate.at(p + sign * move)) for sign in (1, -1)]
            assert np.allclose(J[:, k], (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-4)


def on_points_and_nodes(points):
    """Weighted errors of two candidates, on all points and on nodes that are less than a thirtieth of them."""
    form = Form("hole", "pbe", ("s2",), ("y", "t2"))
    whole, few = (Problem.of_points(points, form, on_nodes) for on_nodes in (False, True))
    assert len(few.x["s2"]) + len(few.gas.eps) < 0.03 * (len(points.x_s2) + len(points.c_rs))
    for x, c in (("0.804*u(0.27*s2)", "1*y"), ("0.2743*s2*inv(0.0252*x_asinh_x(60.77*s2))", "0.5*y*exp(-0.1*t2)")):
        candidate = Candidate(parsed(x), parsed(c))
        yield whole.weight, whole.values(candidate), few.values(candidate)


def test_nodes_that_molecules_share_give_the_energies_of_all_points():
    """PBE's and other reaction energies without the mixed set, to 0.2 of 100 kcal/mol."""
    points = TrainingPoints.read().of("training")
    points = points.chosen([one in ("W4-17", "G21IP", "BH46", "DBH22", "A24") for one in points.subsets])
    for _, whole, few in on_points_and_nodes(points):
        assert np.abs(whole - few).max() < 0.2


@pytest.mark.slow  # nodes of 502 molecules
def test_nodes_give_the_weighted_errors_of_all_kinds_of_reactions():
    """To 0.03 kcal/mol, of 1 to 2."""
    for weight, whole, few in on_points_and_nodes(TrainingPoints.read().of("training")):
        assert np.linalg.norm(weight * (whole - few)) < 0.03
        assert np.linalg.norm(weight * few) == pytest.approx(np.linalg.norm(weight * whole), rel=0.01)


def test_a_fit_under_a_cut_obeys_it_and_costs_error():
    """PBE-like data with kappa = 0.804 under F_x <= 1.174: the cut at large s binds."""
    problem = Problem.of_points(POINTS.of("training"), ALONE)
    cut, start = Cut("ex_two_electrons", (1.0, 5.0, 1.0, 0.0)), Candidate(parsed("0.1*u(1.0*s2)"))
    free, bound = (Fitter(problem, cuts).fit(start, 60).candidate for cuts in ((), (cut,)))
    left = left_sides(ALONE, [cut.condition], [0], np.array([cut.point]).T)
    assert left.values(free)[0] < -0.3 and left.values(bound)[0] > -1e-3
    assert problem.mean_absolute(bound) > problem.mean_absolute(free) + 1.0


def test_growth_adds_the_term_that_the_data_have():
    """The library's energies hold a term 0.1 w^2 beside PBE's: it is among the first three proposals."""
    points, pbe = made_points(), parsed(FORMULAS[0])
    w = exchange_ingredients(points.x_s2, points.x_alpha)["w"]
    points = replace(points, reference=points.reference + points.sum_x(0.1 * w * w))
    form = Form("hole", "", ("s2", "w"))
    growth = Growth(Problem.of_points(points.of("training"), form))
    population = Population([], [Member(Candidate(pbe), 1.0)])
    proposed = growth.propose(population, np.random.default_rng(0), 8)
    assert skeleton(parsed("0.804*u(0.27*s2) + 0.1*w**2")) in {
        candidate.key.split(" |")[0] for candidate, _ in proposed
    }


def test_proposals_are_valid_and_the_same_for_the_same_numbers():
    form = Form("hole", "pbe", ("s2", "alpha", "d"), ("y", "z2", "d"))
    start = Candidate(parsed(FORMULAS[0]), parsed("-1.0*u(1.0*y)"))
    population = Population([Member(start, 2.0)], [Member(start, 2.0)])
    for proposer in (Evolution(form, 30), Enumeration(form)):
        found = proposer.propose(population, np.random.default_rng(3), 60)
        again = Evolution(form, 30) if isinstance(proposer, Evolution) else Enumeration(form)
        assert len(found) > 50 and found == again.propose(population, np.random.default_rng(3), 60)
        assert all(candidate.is_valid(form) and candidate.complexity <= 60 for candidate, _ in found)


def test_the_enumeration_holds_pbe_early_and_nothing_twice():
    found = [c.key for c, _ in Enumeration(ALONE).propose(Population([], []), RNG, 200)]
    assert len(set(found)) == len(found) == 200
    assert found.index(Candidate(parsed(FORMULAS[0])).key) < 10


# ---- The search.

SPECIFICATION = {
    "name": "t_again",
    "size": 30,
    "generations": 2,
    "complexity": 12,
    "stop_below": 1e-4,
    "exchange": {"ingredients": ["s2"]},
    "correlation": {"form": ""},
}


@pytest.mark.parametrize(
    ("name", "change", "most"),
    [
        ("gga_x_pbe", {}, 100),
        pytest.param("gga_x_b88", {"generations": 4, "proposers": {"enumeration": 1}}, 120, marks=slow),  # 100 fits
    ],
)
def test_the_exchange_that_data_come_from_is_found_again(name, change, most):
    """From energies alone; and F_x is that formula's for s up to 5, far beyond the data's accuracy. A rough fit of
    B88's form must not end in its valley above what simpler forms reach."""
    found = dftfd.discover(SPECIFICATION | change, points=made_points(name))
    best = min(found.front, key=lambda f: f.training)
    s2 = np.linspace(0, 25, 200)
    assert 1 + at_points(best.candidate.x, {"s2": s2}) == pytest.approx(native_exchange(name, s2, s2), abs=1e-5)
    assert found.counts["fitted"] < most


WITH_PROOFS = SPECIFICATION | {
    "size": 12,
    "proofs": 1,
    "rounds": 2,
    "stop_below": 0.0,
    "conditions": {"prove": ["ex_two_electrons"]},
}


def written_points(folder) -> TrainingPoints:
    """made_points, rounded as in the file points.npz of the folder."""
    made_points().write(folder / "points.npz")
    return TrainingPoints.read(folder / "points.npz")


def result_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "record.jsonl"}


def interrupted(specification, tmp_path, cuts, **given):
    """The files of a search; its record cut behind some lines, and inside the next, has to give them again."""
    given = {"points": made_points(), **given}
    dftfd.discover(specification, folder=tmp_path / "whole", **given)
    expected, record = result_files(tmp_path / "whole"), (tmp_path / "whole" / "record.jsonl").read_bytes()
    lines = record.splitlines(keepends=True)
    for kept in cuts(len(lines)):
        part = tmp_path / f"part{kept}"
        part.mkdir()
        (part / "record.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        dftfd.discover(specification, folder=part, resume=True, **given)
        assert (part / "record.jsonl").read_bytes() == record
        assert result_files(part) == expected
    return expected


def test_a_search_that_was_interrupted_goes_on_to_the_same_bits(tmp_path):
    """From the middle of the record; another search, and a folder that is not to be gone on from, are refused."""
    given = SPECIFICATION | {"size": 12, "stop_below": 0.0}
    interrupted(given, tmp_path, lambda count: [count // 2])
    with pytest.raises(CheckpointError, match="seed 0 instead of 1"):
        dftfd.discover(given | {"seed": 1}, points=made_points(), folder=tmp_path / "whole", resume=True)
    with pytest.raises(FileError, match="exists"):
        dftfd.discover(given, points=made_points(), folder=tmp_path / "whole")


def test_what_is_in_the_record_needs_no_time(tmp_path):
    """A resumed search whose time is over ends where it had ended, and its files stay."""
    given = SPECIFICATION | {"size": 12, "stop_below": 0.0}
    options = {"points": made_points(), "folder": tmp_path}
    dftfd.discover(given, **options)
    expected = result_files(tmp_path)
    found = dftfd.discover(given, resume=True, hours=1e-9, **options)
    assert found.generations == given["generations"] and result_files(tmp_path) == expected


def spiked(folder) -> dict:
    """Points whose data want F_x = -0.2 at s^2 = 4, and a file with a candidate that has a spike there.

    No sample sees the spike, where F_x is negative.
    """
    x, texts = (np.full(3, -0.1), np.array([4.0, 1.0, 1.0]), np.ones(3)), ("a", "b", "c")
    offsets, c, reference = np.arange(4), (np.ones(3),) * 5, np.array([0.02, -0.117, -0.117])
    role = "training", "training", "validation"
    points = TrainingPoints(
        texts, np.zeros(3), offsets, *x, offsets, *c, np.eye(3), reference, np.ones(3), texts, texts, role
    )
    (folder / "start.jsonl").write_text('{"x": "0.17*s2*exp(-1.0*s2) - 0.3*s2*exp(-1.0*(100000*s2 - 400000)**2)"}\n')
    return {"points": points, "candidates": folder / "start.jsonl"}


OF_SPIKES = SPECIFICATION | {
    "size": 2,
    "complexity": 40,
    "rounds": 2,
    "stop_below": 0.0,
    "conditions": {"prove": ["ex_nonpositive"]},
    "proposers": {"enumeration": 1},
}


@pytest.mark.slow  # a search with proofs for each line of the record
def test_a_search_with_proofs_goes_on_from_each_line_of_its_record(tmp_path):
    expected = interrupted(OF_SPIKES, tmp_path, lambda count: range(1, count), **spiked(tmp_path))
    refuted = [json.loads(line) for line in expected["refuted.jsonl"].splitlines()]
    assert refuted and {row["condition"] for row in refuted} == {"ex_nonpositive"}


@pytest.mark.slow  # traces functionals for several proofs
def test_refutations_by_proof_after_a_sample_are_counted(tmp_path):
    """A candidate has a spike that no sample sees: a row says so."""
    found = dftfd.discover(OF_SPIKES | {"generations": 1}, folder=tmp_path / "run", **spiked(tmp_path))
    assert found.passed_by_sampling >= 1
    assert f"{found.passed_by_sampling} of {len(found.refuted)} refutations are by proof" in str(found)
    rows = [json.loads(line) for line in (tmp_path / "run" / "refuted.jsonl").read_text().splitlines()]
    (row, *_) = [row for row in rows if row["by"] == "proof"]
    assert row["condition"] == "ex_nonpositive" and row["value"] < -0.1 and abs(row["point"][1] - 2.0) < 1e-4
    front = json.loads((tmp_path / "run" / "front.json").read_text())
    assert front["passed_by_sampling"] == found.passed_by_sampling >= front["better_passed_by_sampling"] >= 1


@pytest.mark.slow  # starts processes
def test_processes_find_what_one_process_finds(tmp_path):
    for jobs in (1, 2):
        dftfd.discover(WITH_PROOFS, points=made_points(), folder=tmp_path / str(jobs), jobs=jobs)
    assert result_files(tmp_path / "1") == result_files(tmp_path / "2")


@pytest.mark.slow  # ten processes
def test_a_search_killed_ten_times_ends_with_the_same_bits(tmp_path):
    """Killed at random instants after the record has begun, half of the times beside processes of its own."""
    given = WITH_PROOFS | {"size": 60, "generations": 20}
    dftfd.discover(given, points=written_points(tmp_path), folder=tmp_path / "whole")
    expected, record = result_files(tmp_path / "whole"), (tmp_path / "whole" / "record.jsonl").read_text()
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items() if not isinstance(value, dict)]
    lines.append(f"points = {json.dumps(str(tmp_path / 'points.npz'))}")
    for key, value in given.items():
        if isinstance(value, dict):
            lines += [f"[{key}]", *(f"{name} = {json.dumps(one)}" for name, one in value.items())]
    (tmp_path / "spec.toml").write_text("\n".join(lines))
    words = [sys.executable, "-m", "dftfd", "discover", str(tmp_path / "spec.toml"), "--folder", str(tmp_path / "run")]
    path, kills = tmp_path / "run" / "record.jsonl", 0
    for k in range(10):
        size = path.stat().st_size if path.exists() else -1
        run = subprocess.Popen([*words, "--resume", "--jobs", str(1 + k % 2)], stdout=subprocess.DEVNULL)
        while run.poll() is None and (path.stat().st_size if path.exists() else -1) <= size:
            time.sleep(0.01)
        time.sleep(RNG.uniform(0, 0.3))
        kills += run.poll() is None
        run.kill()
        run.wait()
    assert kills == 10 and path.stat().st_size < len(record)
    subprocess.run([*words, "--resume"], check=True, stdout=subprocess.DEVNULL)
    found, whole = (sorted(text.splitlines()) for text in (path.read_text(), record))  # processes answer in any order
    differing = [f"{a}\n{b}" for a, b in zip(found, whole, strict=False) if a != b]
    assert not differing and len(found) == len(whole), "\n\n".join(["", *differing[:2]])
    assert result_files(tmp_path / "run") == expected


ON_CLUSTER = """
import json, os, signal, sys
from distributed import Client, LocalCluster
import dftfd
from dftfd.discovery.points import TrainingPoints

def main():
    specification, points, folder = json.loads(sys.argv[1]), TrainingPoints.read(sys.argv[2]), sys.argv[3]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        killed = []

        def kill(step):
            if len(killed) < 2:
                killed.append(min(worker.pid for worker in cluster.workers.values() if worker.pid))
                os.kill(killed[-1], signal.SIGKILL)

        dftfd.discover(specification, points=points, folder=folder, client=client, on_step=kill)
    print(len(set(killed)))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow  # starts a cluster
def test_a_cluster_that_loses_two_workers_finds_the_same(tmp_path):
    pytest.importorskip("distributed")
    given = WITH_PROOFS | {"generations": 4}
    dftfd.discover(given, points=written_points(tmp_path), folder=tmp_path / "whole")
    (tmp_path / "program.py").write_text(ON_CLUSTER)
    words = [tmp_path / "program.py", json.dumps(given), tmp_path / "points.npz", tmp_path / "run"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == ["2"]
    assert result_files(tmp_path / "run") == result_files(tmp_path / "whole")


def test_a_program_takes_part_and_what_it_says_is_kept(tmp_path):
    """It gets the front as JSON lines and answers with formulas; lines that are none are left out."""
    program = tmp_path / "mine.sh"
    program.write_text(
        f"#!/bin/sh\ncat >> {tmp_path}/told\n"
        'echo \'{"x": "0.5*u(0.3*s2)"}\'\necho nonsense\necho \'{"x": "0.1*alpha"}\'\necho \'[1]\'\n'
    )
    os.chmod(program, 0o755)
    given = SPECIFICATION | {"proposers": {"command": 1}, "generations": 2, "stop_below": 0.0}
    options = {"points": made_points(), "propose_with": [str(program)]}
    found = dftfd.discover(given, folder=tmp_path / "run", **options)
    assert [skeleton(f.candidate.x) for f in found.front] == [skeleton(parsed(FORMULAS[0]))]
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert len(told) == 1 and told[0]["x"].startswith("0.80") and told[0]["complexity"] == 6
    program.unlink()  # the record has its answers
    again = dftfd.discover(given, folder=tmp_path / "run", resume=True, **options)
    assert str(again) == str(found)
    with pytest.raises(FileError, match="does not run"):
        dftfd.discover(given, **options)


def test_the_command_writes_a_folder_that_runs(tmp_path, capsys):
    """dftfd discover SPEC.toml, from a file of formulas; the functional found is then used by its file."""
    made_points().write(tmp_path / "points.npz")
    (tmp_path / "spec.toml").write_text(
        'name = "t_cli"\nsize = 10\ngenerations = 1\npoints = "points.npz"\n[exchange]\ningredients = ["s2"]\n'
        '[correlation]\nform = ""\n[proposers]\nenumeration = 1\n'
    )
    (tmp_path / "start.jsonl").write_text('{"x": "0.5*u(0.3*s2)"}\n')
    folder = tmp_path / "found"
    words = ["discover", str(tmp_path / "spec.toml"), "--folder", str(folder), "--from", str(tmp_path / "start.jsonl")]
    assert main(words) == 0
    assert "t_cli_1 " in capsys.readouterr().out
    front = json.loads((folder / "front.json").read_text())["front"]
    (row,) = [row for row in front if row["number"] == 1]
    functional = functional_in_file(f"{folder / 't_cli_1.py'}:t_cli_1")
    assert functional.parameters["a1"] == pytest.approx(0.804, abs=1e-3)
    assert row["formulas"][0].startswith("e_x = e_x^LDA (1 + 0.80")
    assert "<svg" in (folder / "index.html").read_text()
    assert main(words) == FileError.exit_code
    assert main([*words, "--resume"]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": 3}, "sizes"),
        ({"size": 0}, "size"),
        ({"name": "a b"}, "name"),
        ({"exchange": {"ingredients": ["s3"]}}, "no ingredient 's3'"),
        ({"exchange": {"ingredients": ["alpha"]}}, "vanish"),
        ({"exchange": {"form": "gga_x_pbe"}, "correlation": {"form": "gga_c_pbe"}}, "one has to be searched"),
        ({"correlation": {"ingredients": ["y"]}}, "'pbe'"),
        ({"conditions": {"prove": ["ec_positive"]}}, "ec_nonpositive"),
        ({"conditions": {"domain": {"q": [0, 1]}}}, "q"),
        ({"conditions": {"domain": {"s": [1, 0]}}}, "from, to"),
        ({"conditions": {"domain": {"s": 1}}}, "from, to"),
        ({"proposers": {"evolution": 0}}, "share"),
        ({"proposers": {"command": 1}}, "propose_with"),
        ({"proposers": {"command": 1}, "command": ["rm", "x"]}, "command"),  # no file names a program
        ({"proposers": {"luck": 1}}, "luck"),
        ({"correlation": {"ingredients": ["t2", "z2"]}, "conditions": {"prove": ["ec_nonpositive"]}}, "range of zeta"),
        (
            {
                "correlation": {"ingredients": ["t2", "z2"]},
                "conditions": {"prove": ["ec_nonpositive"], "domain": {"zeta": [0, 0.9]}, "polarised": []},
            },
            "polarised",
        ),
        ({"conditions": {"prove": ["ec_nonpositive"], "polarised": ["ec_nonpositiv"]}}, "no condition"),
        ({"conditions": {"prove": ["ec_nonpositive"], "polarised": ["ec_nonpositive"]}}, "range of zeta"),
        (
            {"conditions": {"prove": ["ec_nonpositive"], "domain": {"zeta": [0, 0.9]}, "polarised": ["ec_scaling"]}},
            "conditions to prove",
        ),
        ({"seed": "x"}, "seed"),
        ({"dispersion": "revpbe"}, "as 'revpbe-d3bj'"),
        ({"dispersion": "revpbe-d3bk"}, "d3b"),
        ({"dispersion": ["d3bj", "revpbe"]}, "dispersion"),
    ],
)
def test_specifications_that_do_not_fit_are_refused(change, said):
    with pytest.raises(InputError, match=said):
        read(SPECIFICATION | change)


def test_candidates_are_fitted_beside_their_dispersion(tmp_path):
    """Energies of PBE exchange and the correction give PBE's parameters; a file of another correction is refused."""
    points = TrainingPoints.read()
    points = points.chosen([s == "W4-17" and r == "training" for s, r in zip(points.subsets, points.role, strict=True)])
    F_x, eps_c = native_exchange("gga_x_pbe", points.x_s2, points.x_alpha), 0.0 * points.c_rs
    energies = with_dispersion(points, "d3bj", "revpbe").energies(F_x, eps_c)
    points = replace(points, reference=energies @ points.stoichiometry.T)
    given = SPECIFICATION | {"dispersion": "revpbe-d3bj", "generations": 1, "size": 1}
    (tmp_path / "start.jsonl").write_text('{"x": "0.5*u(1.0*s2)"}\n')
    start = {"points": points, "folder": tmp_path / "run", "candidates": tmp_path / "start.jsonl"}
    best = min(dftfd.discover(given, **start).front, key=lambda f: f.training)
    assert best.training < 1e-5
    assert best.candidate.parameters == pytest.approx([0.804, 0.2195149727645171 / 0.804], rel=1e-5)
    with pytest.raises(CheckpointError):
        dftfd.discover(given | {"dispersion": "pbe-d3bj"}, **start, resume=True)
    with pytest.raises(CheckpointError, match="largest_parameter"):
        dftfd.discover(given | {"largest_parameter": 10.0}, **start, resume=True)


def test_other_inputs_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "bad.toml").write_text("size = = 3")
    (tmp_path / "bad.jsonl").write_text('{"x": "0.1*s2"}\n{"x": "0.1*alpha"}\n')
    with pytest.raises(FileError, match="TOML"):
        dftfd.discover(tmp_path / "bad.toml", points=made_points())
    with pytest.raises(FileError, match="line 2"):
        candidates_in(tmp_path / "bad.jsonl", ALONE)
    for given in ({"points": 3}, {"held_out": "why"}, {"jobs": 0}):
        with pytest.raises(DftfdError):
            dftfd.discover(SPECIFICATION, **{"points": made_points(), **given})
    with pytest.raises(InputError, match="names as keys"):
        dftfd.discover({1: 2}, points=made_points())


def test_damping_is_fitted_with_candidates(tmp_path):
    """Its parameters are eliminated from fits and scores as by least squares; files have those that were found."""
    points = TrainingPoints.read()
    points = points.chosen([s == "A24" and r != "held out" for s, r in zip(points.subsets, points.role, strict=True)])
    moving = with_damping_slopes(points, "d3bj", "revpbe")
    plain = Problem.of_points(with_dispersion(points, "d3bj", "revpbe"), ALONE)
    problem = Problem.of_points(moving, ALONE)
    candidate = Candidate(parsed("0.8*u(0.3*s2)"))
    np.testing.assert_allclose(problem.values(candidate), plain.values(candidate))

    at = lambda m: problem.values(candidate) + problem.corrections @ m
    whole = lambda m: np.sum((problem.weight * at(m)) ** 2) + CORRECTION**2 * np.sum(np.square(m))
    best = minimize(whole, np.zeros(3), method="BFGS", options={"gtol": 1e-10}).x
    assert problem.multiples(candidate) == pytest.approx(best, abs=1e-5) and np.abs(best).max() > 0.1
    found = problem.without_corrections(problem.weight * problem.values(candidate))
    assert np.sum(found**2) == pytest.approx(whole(best), rel=1e-10)
    assert problem.mean_absolute(candidate, best) == pytest.approx(np.average(np.abs(at(best)), weights=problem.weight))

    own = moved(("d3bj", "revpbe"), [0.05, 0.05, -0.05])  # to first order
    expected = Problem.of_points(with_dispersion(points, *own), ALONE).values(candidate)
    change = expected - plain.values(candidate)
    np.testing.assert_allclose(problem.corrections @ [0.05, 0.05, -0.05], change, atol=0.05 * np.abs(change).max())

    given = SPECIFICATION | {"dispersion": "revpbe-d3bj", "generations": 1, "size": 4, "fit_damping": True}
    result = dftfd.discover(given, points=points, folder=tmp_path)
    one = result.front[-1]
    assert one.training == pytest.approx(Problem.of_points(moving.of("training"), result.specification.form)
                                         .mean_absolute(one.candidate, one.multiples))  # fmt: skip
    in_file = functional_in_file(f"{tmp_path / result.name_of(one)}.py:{result.name_of(one)}")
    assert in_file.dispersion == moved(("d3bj", "revpbe"), one.multiples) != ("d3bj", "revpbe")
    with pytest.raises(InputError, match="fit_damping needs dispersion"):
        dftfd.discover(SPECIFICATION | {"fit_damping": True})
    with pytest.raises(InputError, match="d3zero 'pbe' cannot be fitted"):
        with_damping_slopes(points, "d3zero", "pbe")


def test_exchange_that_grows_without_bound_is_broken_beyond_the_domain():
    """For s up to 5 the term 1e-6 s^2 changes nothing; a self-consistent energy has the s of density tails."""
    demands = Demands.of(["ex_bounded", "ec_nonpositive"], {})
    sampled = Sampled(Form("hole", "pbe", ("s2",), ("y", "t2")), demands, 64, 0)
    assert not sampled.broken(Candidate(parsed("0.8*u(0.26*s2)")))
    (cut,) = sampled.broken(Candidate(parsed("0.8*u(0.26*s2) + 1e-6*s2")))
    assert cut.condition == "ex_bounded" and cut.point[1] == max(FAR_S)
    assert cut.value == pytest.approx(1.804 - 1.8 - 1e-6 * cut.point[1] ** 2, abs=1e-2)
    demands = Demands.of(["ec_nonpositive", "lieb_oxford_exc"], {})
    sampled = Sampled(Form("gga_x_pbe", "factor", (), ("t2", "s2")), demands, 64, 0)
    (cut,) = sampled.broken(Candidate(None, parsed("-0.9*u(1.0*t2) + 1e-6*s2")))
    assert cut.condition == "lieb_oxford_exc" and cut.point[1] == max(FAR_S)
