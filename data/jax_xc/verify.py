"""Every functional of the catalogue against libxc 7: which names are served, and why not the others.

    python data/jax_xc/verify.py measure SEED OUT.json [PART PARTS]   errors of all functionals on the points of a seed
    python data/jax_xc/verify.py second SEED OUT.json [PART PARTS]    errors of second derivatives, names of COMMON
    python data/jax_xc/verify.py decide OUT.json [OUT.json ...]     functionals/jax_xc_verdicts.json

Points: 3,000 for each spin layout, of which a third from the density of the water cation, see `points`. A name passes
if energy and first derivatives are finite at all points and their errors at the 99th percentile are below 1e-9 and
1e-7; errors are those of `dftfd.verify.point_comparison`. Names are chosen on the first seed and have to pass on all
others.
Functionals are sums of kernels, so each kernel is measured once (all names: 6 minutes of one core for a seed).
"""

import functools
import itertools
import json
import math
import sys
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.structure import structural_key
from dftfd.functionals import catalogue
from dftfd.interop import libxc
from dftfd.verify.check import molecular_jet, reference_densities
from dftfd.verify.point_comparison import compare, scaled_error
from dftfd.xc.channels import VARIABLES

ROOT = Path(__file__).parents[2]
VERDICTS = ROOT / "functionals" / "jax_xc_verdicts.json"
N_POINTS = 3000
LIMITS = {"e": 1e-9, "d": 1e-7}
SPINS = {"1": "unpolarised", "2": "polarised"}
ABSENT = "libxc 6.0, which jax-xc was made from, does not have it"
COMMON = """
lda_x lda_c_pw lda_c_pw_mod lda_c_vwn lda_c_vwn_rpa lda_c_pz lda_c_wigner lda_c_hl gga_x_pbe gga_x_pbe_r gga_x_rpbe
gga_x_pbe_sol gga_x_b88 gga_x_optx gga_x_pw91 gga_x_mpw91 gga_x_pw86 gga_x_rpw86 gga_x_g96 gga_x_wc gga_x_ssb_d
gga_x_b86 gga_x_sogga gga_x_sogga11 gga_x_n12 gga_x_optb88_vdw gga_x_optpbe_vdw gga_x_c09x gga_x_am05 gga_x_pbeint
gga_x_xpbe gga_x_hjs_pbe gga_x_ityh gga_c_pbe gga_c_pbe_sol gga_c_lyp gga_c_p86 gga_c_pw91 gga_c_am05 gga_c_n12
gga_c_sogga11 gga_c_optc gga_c_op_b88 gga_c_regtpss gga_xc_hcth_93 gga_xc_hcth_120 gga_xc_hcth_147 gga_xc_hcth_407
gga_xc_b97_d gga_xc_edf1 gga_xc_th1 gga_xc_xlyp gga_xc_kt2 hyb_gga_xc_b3lyp hyb_gga_xc_b3lyp5 hyb_gga_xc_b3p86
hyb_gga_xc_b3pw91 hyb_gga_xc_x3lyp hyb_gga_xc_o3lyp hyb_gga_xc_pbeh hyb_gga_xc_b97 hyb_gga_xc_b97_1 hyb_gga_xc_b97_2
hyb_gga_xc_cam_b3lyp hyb_gga_xc_wb97 hyb_gga_xc_wb97x hyb_gga_xc_wb97x_d hyb_gga_xc_lc_blyp hyb_gga_xc_bhandhlyp
hyb_gga_xc_mpw1k mgga_x_tpss mgga_x_revtpss mgga_x_scan mgga_x_r2scan mgga_x_m06_l mgga_x_mn15_l mgga_x_tm mgga_x_ms2
mgga_x_mvs mgga_x_pkzb mgga_c_scan mgga_c_r2scan mgga_c_m06_l mgga_c_mn15_l mgga_c_bc95 hyb_mgga_x_m05
hyb_mgga_x_m05_2x hyb_mgga_x_m06 hyb_mgga_x_m06_2x hyb_mgga_x_mn15 mgga_c_m06 mgga_c_m06_2x hyb_mgga_xc_tpssh
hyb_mgga_xc_pw6b95 hyb_mgga_xc_wb97m_v
""".split()
SECOND_LIMIT, N_SECOND = 1e-9, 400
CAUSES = {
    **dict.fromkeys(("lda_c_rpa", "lda_c_gk72", "gga_x_lag", "gga_x_hcth_a", "gga_x_ssb_sw"), "libxc 7 changed it"),
    **dict.fromkeys(
        ("mgga_c_revscan", "mgga_c_revscan_vv10"),
        "libxc 6.0 takes the logarithm of a negative number, libxc 7 does not",
    ),
    "hyb_mgga_xc_b0kcis": "libxc counts the correlation twice, jax-xc once",
}
"""What is behind a difference, where it is known."""
_K_F, _TAU = (6 * math.pi**2) ** (1 / 3), 0.3 * (6 * math.pi**2) ** (2 / 3)


def points(n_spin: int, seed: int) -> np.ndarray:
    """(variable, point): n from 1e-8 to 1e2, 1 - |zeta| down to 1e-4, s to 10, tau above tau_W, and a molecule."""
    rng = np.random.default_rng(seed)
    count = 2 * N_POINTS // 3
    n = 10 ** rng.uniform(-8, 2, count)
    zeta = rng.uniform(-0.99, 0.99, count)
    strong = rng.random(count) < 0.2
    zeta[strong] = np.sign(zeta[strong]) * (1 - 10 ** rng.uniform(-4, -2, strong.sum()))
    zeta = zeta if n_spin == 2 else np.zeros(count)
    rho = 0.5 * n * np.stack([1 + zeta, 1 - zeta])
    s = np.where(rng.random((2, count)) < 0.7, rng.uniform(0, 3, (2, count)), rng.uniform(0, 10, (2, count)))
    gradient, alpha = s * 2 * _K_F * rho ** (4 / 3), 10 ** rng.uniform(-3, 1, (2, count))
    cosine, q = rng.uniform(-1, 1, count), rng.uniform(-4, 4, (2, count))
    if n_spin == 1:
        gradient, alpha, q, cosine = gradient[[0, 0]], alpha[[0, 0]], q[[0, 0]], np.ones(count)
    tau = gradient**2 / (8 * rho) + alpha * _TAU * rho ** (5 / 3)
    lapl = q * 4 * _K_F**2 * rho ** (5 / 3)
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1] * cosine, gradient[1] ** 2])
    x = np.concatenate([np.concatenate([rho, sigma, lapl, tau]), molecular_points(n_spin, rng)], axis=1)
    if n_spin == 2:
        return x
    return np.stack([x[0] + x[1], x[2] + 2 * x[3] + x[4], x[5] + x[6], x[7] + x[8]])


def molecular_points(n_spin, rng):
    """Variables around a water molecule (its cation for two spins), where the density of each spin exceeds 1e-8."""
    water, P, P_cation = reference_densities()
    P = P_cation if n_spin == 2 else 0.5 * np.concatenate([P, P])
    directions = rng.normal(size=(8 * N_POINTS, 3))
    directions *= (rng.uniform(0.02, 7, 8 * N_POINTS) / np.linalg.norm(directions, axis=1))[:, None]
    x = molecular_jet(water, P, directions).variables()
    return x[:, x[:2].min(axis=0) > 1e-8][:, : N_POINTS // 3]


class Measurement:
    """Energies and derivatives of functionals on fixed points, each kernel computed once."""

    def __init__(self, seed):
        self.x = {n_spin: points(n_spin, seed) for n_spin in (1, 2)}
        self.known = {}

    def term(self, coefficient, term, n_spin):
        """(energy, first derivatives) of one term."""
        key = structural_key((n_spin, term.formula, tuple(sorted(term.parameters.items()))))
        if key not in self.known:
            energy, pull = jax.vjp(functools.partial(_energy, term, n_spin), *map(jnp.asarray, self.x[n_spin]))
            self.known[key] = np.asarray(energy), np.stack(pull(jnp.ones_like(energy)))
        return tuple(coefficient * a for a in self.known[key])

    def errors(self, name) -> dict:
        """By spins and quantity: error at the 99th percentile, largest error, number of points that are not finite."""
        functional, result = catalogue.build(name).semilocal_part, {}
        for n_spin in (1, 2):
            parts = [self.term(c, t, n_spin) for c, t in functional.terms]
            ours = [sum(a) for a in zip(*parts, strict=True)]
            reference = libxc.reference([(1.0, name)], self.x[n_spin], n_spin, order=1)
            reference = libxc.Derivatives(reference.energy, reference.first, None)
            for quantity, error in compare((*ours, None), reference, self.x[n_spin], n_spin).items():
                bad = int(np.sum(~np.isfinite(error)))
                error = np.where(np.isfinite(error), error, np.inf)
                result[f"{n_spin} {quantity}"] = [float(np.quantile(error, 0.99)), float(error.max()), bad]
        return result


def _energy(term, n_spin, *rows):
    """Energy per volume of rows (point,) of libxc's variables, one operation after the other on all points."""
    if n_spin == 1:
        n, sigma, lapl, tau = rows
        rows = (n / 2, n / 2, sigma / 4, sigma / 4, sigma / 4, lapl / 2, lapl / 2, tau / 2, tau / 2)
    return term.formula.energy_per_volume(rows[:2], rows[2:5], rows[5:7], rows[7:9], term.parameters)


def measure(seed, out, part=0, parts=1):
    measurement, results = Measurement(int(seed)), {}
    for name in sorted(catalogue.table())[int(part) :: int(parts)]:
        try:
            results[name] = {"errors": measurement.errors(name), "exact_exchange": exchange_difference(name)}
        except Exception as error:  # noqa: BLE001  each reason is recorded and shown on the page
            where = traceback.extract_tb(error.__traceback__)[-1].name
            results[name] = {"failed": f"{type(error).__name__}: {error}"[:300], "in": where}
        print(name, results[name].get("failed", ""), flush=True)
        Path(out).write_text(json.dumps({"seed": int(seed), "names": results}))


def second(seed, out, part=0, parts=1):
    """Errors of second derivatives at points where no spin density is below 1e-6, or below 1 % of the other."""
    x, known, results = {}, {}, {}
    for n_spin in (1, 2):
        x[n_spin] = points(n_spin, int(seed))
        rho = x[n_spin][:n_spin]
        x[n_spin] = x[n_spin][:, (rho.min(axis=0) > 1e-6) & (rho.min(axis=0) > 0.01 * rho.max(axis=0))]
        x[n_spin] = x[n_spin][:, :: max(1, x[n_spin].shape[1] // N_SECOND)][:, :N_SECOND]
    for name in sorted(COMMON)[int(part) :: int(parts)]:
        errors = {}
        for n_spin in (1, 2):
            rows = [jnp.asarray(row) for row in x[n_spin]]
            total = 0.0
            for c, term in catalogue.build(name).semilocal_part.terms:
                key = structural_key((n_spin, term.formula, tuple(sorted(term.parameters.items()))))
                if key not in known:
                    known[key] = _second(term, n_spin, rows)
                total = total + c * known[key]
            reference = libxc.reference([(1.0, name)], x[n_spin], n_spin, order=2)
            errors[n_spin] = _second_error(total, reference.second, x[n_spin], n_spin)
        results[name] = max(errors.values())
        print(name, errors, flush=True)
    Path(out).write_text(json.dumps({"seed": int(seed), "second": results}))


def _second_error(ours, reference, x, n_spin):
    """The 99th percentile of the error of a component, largest over all components (variable, variable, point)."""
    families = [v.split("_")[0] for v in VARIABLES[n_spin]]
    pairs = itertools.combinations_with_replacement(range(len(families)), 2)
    errors = [scaled_error(ours[p], reference[p], x[:n_spin].sum(axis=0), [families[i] for i in p]) for p in pairs]
    return float(np.quantile(errors, 0.99, axis=1).max())


def _second(term, n_spin, rows):
    """(variable, variable, point): forward derivatives of the gradient along all variables side by side."""

    def gradient(*rows):
        energy, pull = jax.vjp(functools.partial(_energy, term, n_spin), *rows)
        return pull(jnp.ones_like(energy))

    def along(*seeds):
        tangents = tuple(jnp.full_like(row, 1.0) * seed for row, seed in zip(rows, seeds, strict=True))
        return jnp.stack(jax.jvp(gradient, tuple(rows), tangents)[1])

    return np.asarray(jax.vmap(along)(*np.eye(len(rows))))


def exchange_difference(name):
    """Largest difference of a fraction of exact exchange between the table and libxc 7."""
    ours, reference = dict(catalogue.build(name).exact_exchange), dict(libxc.exact_exchange(name))
    return max((abs(ours.get(w, 0.0) - reference.get(w, 0.0)) for w in {*ours, *reference}), default=0.0)


# ---- from errors to verdicts


def decide(*files):
    by_seed, seconds = {}, {}
    for file in files:
        data = json.loads(Path(file).read_text())
        if "second" in data:
            seconds.update(data["second"])
        else:
            by_seed.setdefault(data["seed"], {}).update(data["names"])
    reasons = [{name: reason(name, entry) for name, entry in names.items()} for names in by_seed.values()]
    chosen = sorted(name for name in reasons[0] if not reasons[0][name])
    refused = {name: next(filter(None, (r[name] for r in reasons)), None) for name in sorted(catalogue.table())}
    verified = {name: worst(name, by_seed.values()) for name in chosen if not refused[name]}
    refused = {name: why for name, why in refused.items() if why} | {name: ABSENT for name in names_of_libxc_7_only()}
    rows = lambda entries: ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(entries.items()))
    VERDICTS.write_text(f'{{"verified": {{\n{rows(verified)}\n}},\n"refused": {{\n{rows(refused)}\n}}}}\n')
    if far := {name: seconds.get(name) for name in common(verified) if not seconds.get(name, math.inf) <= SECOND_LIMIT}:
        sys.exit(f"The page says that second derivatives of common names agree; not so, or not compared: {far}")
    print(f"{len(chosen)} chosen on seed {next(iter(by_seed))}, {len(verified)} pass on all of {list(by_seed)}")


def reason(name, entry) -> str | None:
    """Why a name is not served, None if it passed."""
    if libxc.is_known(name) and libxc.is_yukawa_screened(name):
        return "its exact exchange is screened by exp(-omega r), for which there are no integrals"
    if "failed" in entry:
        kind, _, text = entry["failed"].partition(": ")
        if kind == "NameError":
            return f"its kernel calls {text.split(chr(39))[1]}, which jax-xc does not have"
        return text.rstrip(".")
    if entry["exact_exchange"] > 1e-12:
        return f"its fractions of exact exchange differ by {entry['exact_exchange']:.1g} from libxc 7's"
    found = []
    for quantity, (typical, _, bad) in entry["errors"].items():
        spins, what = quantity.split(" ", 1)
        what = {"e": "energy"}.get(what, what)
        if bad:
            found.append((math.inf, f"{what} is not finite at {bad} of {N_POINTS:,} points ({SPINS[spins]})"))
        elif typical > LIMITS[what[0]]:
            found.append(
                (typical, f"{what} differs from libxc 7's by {typical:.1e} at the 99th percentile ({SPINS[spins]})")
            )
    if not found:
        return None
    return "; ".join(filter(None, (CAUSES.get(name), max(found)[1])))


def worst(name, measurements) -> list[float]:
    """Largest 99th percentiles of the errors of energy and first derivatives, two digits."""
    entries = [(q, p99) for names in measurements for q, (p99, _, _) in names[name]["errors"].items()]
    largest = lambda is_energy: max(p99 for q, p99 in entries if q.endswith(" e") == is_energy)
    return [float(f"{largest(True):.1e}"), float(f"{largest(False):.1e}")]


def names_of_libxc_7_only():
    return sorted(set(libxc.names()) - set(catalogue.table()))


def common(verified) -> list[str]:
    """The served names whose second derivatives are compared, too."""
    return [name for name in COMMON if name in verified]


if __name__ == "__main__":
    {"measure": measure, "second": second, "decide": decide}[sys.argv[1]](*sys.argv[2:])
