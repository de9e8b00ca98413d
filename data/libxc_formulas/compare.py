"""Every formula of libxc's source against libxc's own numbers: which names are served, and why not the others.

    python data/libxc_formulas/compare.py measure SEED OUT.json [PART PARTS]   errors of all that OUT.json has not
    python data/libxc_formulas/compare.py measure SEED OUT.json 0 1 NAME ...    of these names
    python data/libxc_formulas/compare.py decide OUT.json [OUT.json ...]     functionals/libxc_verdicts.json
    python data/libxc_formulas/compare.py confirm OUT.json ...     names with another stored verdict

DFTFD_LIBXC_SOURCE names the source tree (7.0.0, as PySCF's libxc). Points and errors are those of
data/jax_xc/verify.py: 3,000 points for each spin layout, a third of them from the density of the water cation; errors
relative to the value plus the natural size of the quantity. A name agrees if energy and first derivatives are finite at
all points and their errors at the 99th percentile are below 1e-10 and 1e-8, on all seeds; the first derivatives of
model potentials are the potential.
"""

import json
import math
import sys
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "data" / "jax_xc"))

import verify  # noqa: E402  of data/jax_xc

from dftfd.functionals import catalogue, libxc_tree  # noqa: E402
from dftfd.interop import libxc  # noqa: E402
from dftfd.verify.point_comparison import compare  # noqa: E402
from dftfd.xc.channels import VARIABLES  # noqa: E402

VERDICTS = ROOT / "functionals" / "libxc_verdicts.json"
DEORBITALISED = 1e-30
"""What libxc puts in place of smaller densities for functionals with a kinetic energy in the place of tau. Its own
number, 1e-15, stands for the other spin there and enters at every density, by 1e-7 where that is 1e-8."""

LIMITS = {"e": 1e-10, "d": 1e-8}

SCREENED = "agrees, but its exact exchange is screened by exp(-omega r), for which there are no integrals"
ABSENT = dict.fromkeys(
    ("lda_x_1d_exponential", "lda_x_1d_soft"), "libxc integrates a special function numerically, which is not done here"
)
CAUSES = {
    "hyb_mgga_xc_b0kcis": "libxc counts its correlation twice",
    **dict.fromkeys(
        ("gga_c_ft97", "gga_c_gapc", "hyb_gga_xc_hse12s", "hyb_gga_xc_lc_wpbe"),
        "the formula loses digits, here and in libxc (in_sixty_digits.py)",
    ),
    **dict.fromkeys(
        ("gga_x_pbe_erf_gws", "hyb_gga_x_pbe_erf_gws"),
        "0/0 by rounding at small densities, here and, at other points, in libxc",
    ),
}
"""What is behind a difference, where it is known."""


class Measurement(verify.Measurement):
    """Energies and derivatives of formulas on fixed points, each formula computed once."""

    def errors(self, name) -> dict:
        """By spins and quantity: error at the 99th percentile, largest error, number of points that are not finite."""
        entry, result = catalogue.source_table()[name], {}
        functional = catalogue._built(name, entry).semilocal_part
        for n_spin in (1, 2):
            parts = [self.term(c, t, n_spin) for c, t in functional.terms]
            ours = [sum(a) for a in zip(*parts, strict=True)]
            if functional.has_energy:
                threshold = DEORBITALISED if any("tau" in record for _, record in entry["terms"]) else None
                reference = libxc.reference([(1.0, name)], self.x[n_spin], n_spin, order=1, threshold=threshold)
                reference = libxc.Reference(reference.energy, reference.first, None)
            else:
                first = np.zeros((len(VARIABLES[n_spin]), self.x[n_spin].shape[1]))
                first[:n_spin] = libxc.model_potential(name, self.x[n_spin], n_spin)
                reference = libxc.Reference(np.zeros(first.shape[1]), first, None)
            for quantity, error in compare((*ours, None), reference, self.x[n_spin], n_spin).items():
                bad = int(np.sum(~np.isfinite(error)))
                error = np.where(np.isfinite(error), error, np.inf)
                result[f"{n_spin} {quantity}"] = [float(np.quantile(error, 0.99)), float(error.max()), bad]
        return result


def measure(seed, out, part=0, parts=1, *wanted):
    measurement, results = Measurement(int(seed)), {}
    if Path(out).exists():  # a run that was ended goes on where it was
        stored = json.loads(Path(out).read_text())
        if stored["seed"] != int(seed):
            sys.exit(f"{out} holds seed {stored['seed']}; give another file for seed {seed}.")
        results = stored["names"]
    names = wanted or sorted(catalogue.source_table())[int(part) :: int(parts)]
    for name in [n for n in names if n not in results]:
        try:
            errors = measurement.errors(name)
            results[name] = {"errors": errors, "exact_exchange": exchange_difference(name)}
            worst = max(v[0] for v in errors.values()), sum(v[2] for v in errors.values())
        except Exception as error:  # noqa: BLE001  each reason is recorded and shown on the page
            where = traceback.extract_tb(error.__traceback__)[-1].name
            results[name] = {"failed": f"{type(error).__name__}: {error}"[:300], "in": where}
            worst = results[name]["failed"]
        print(name, worst, flush=True)
        Path(out).write_text(json.dumps({"seed": int(seed), "names": results}))


def exchange_difference(name):
    functional = catalogue._built(name, catalogue.source_table()[name])
    ours, reference = dict(functional.exact_exchange), dict(libxc.exact_exchange(name))
    return max((abs(ours.get(w, 0.0) - reference.get(w, 0.0)) for w in {*ours, *reference}), default=0.0)


def decide(*files):
    by_seed = {}
    for file in files:
        data = json.loads(Path(file).read_text())
        by_seed.setdefault(data["seed"], {}).update(data["names"])
    reasons = [{name: reason(name, entry) for name, entry in names.items()} for names in by_seed.values()]
    agreed, other = {}, {}
    for name in libxc.names():
        why = ABSENT.get(name) or next((r[name] for r in reasons if r.get(name)), None)
        if why is None and all(name in names for names in by_seed.values()):
            agreed[name] = verify.worst(name, by_seed.values())
        else:
            other[name] = why or "not compared"
    unserved = {name: SCREENED for name in agreed if libxc.is_yukawa_screened(name)}
    verified = {name: errors for name, errors in agreed.items() if name not in unserved}
    texts = {}
    for entry in catalogue.source_table().values():
        for record in [r for _, term in entry["terms"] for r in (term, term.get("tau")) if r]:
            text = libxc_tree.kernel(record["kernel"], record["reads"])
            texts[record["kernel"]] = libxc_tree.text_key(text)
    rows = lambda entries: ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(entries.items()))
    parts = {"verified": verified, "refused": other | unserved, "texts": texts}
    VERDICTS.write_text("{" + ",\n".join(f'"{key}": {{\n{rows(part)}\n}}' for key, part in parts.items()) + "}\n")
    print(f"{len(agreed)} of {len(libxc.names())} names agree on seeds {list(by_seed)}, {len(verified)} are served")


def confirm(*files):
    """Say what the files' names, some of them or all, would be given as a verdict where another one is stored."""
    stored, seen = catalogue.source_verdicts(), 0
    for file in files:
        for name, entry in json.loads(Path(file).read_text())["names"].items():
            why = ABSENT.get(name) or reason(name, entry)
            why = why or (SCREENED if libxc.is_yukawa_screened(name) else None)
            known = None if name in stored["verified"] else stored["refused"].get(name, "not compared")
            seen += 1
            if why != known:
                print(f"{name}: {why or 'agrees'}; stored: {known or 'agrees'}")
    print(f"{seen} names")


def reason(name, entry) -> str | None:
    """Why a name does not agree, None if it does."""
    if "failed" in entry:
        return entry["failed"].partition(": ")[2].rstrip(".")
    if entry["exact_exchange"] > 1e-12:
        return f"its fractions of exact exchange differ by {entry['exact_exchange']:.1g}"
    found = []
    for quantity, (typical, _, bad) in entry["errors"].items():
        spins, what = quantity.split(" ", 1)
        limit, what = LIMITS[what[0]], {"e": "energy"}.get(what, what)
        where = verify.SPINS[spins]
        if bad:
            found.append((math.inf, f"{what} is not finite at {bad} of {verify.N_POINTS:,} points ({where})"))
        elif typical > limit:
            found.append((typical / limit, f"{what} differs by {typical:.1e} at the 99th percentile ({where})"))
    if not found:
        return None
    return "; ".join(filter(None, (CAUSES.get(name), max(found)[1])))


if __name__ == "__main__":
    {"measure": measure, "decide": decide, "confirm": confirm}[sys.argv[1]](*sys.argv[2:])
