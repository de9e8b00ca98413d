"""Every formula of libxc's source against libxc's own numbers: which names are served, and why not the others.

    python data/libxc_formulas/compare.py measure SEED OUT.json [PART PARTS]   errors of all functionals
    python data/libxc_formulas/compare.py decide OUT.json [OUT.json ...]     functionals/libxc_verdicts.json, docs page

DFTFD_LIBXC_SOURCE names the source tree (7.0.0, as PySCF's libxc). Points and errors are those of data/jax_xc/verify.py:
3,000 points for each spin layout, a third of them from the density of the water cation; errors relative to the value
plus the natural size of the quantity. A name agrees if energy and first derivatives are finite at all points and their
errors at the 99th percentile are below 1e-10 and 1e-8, on all seeds; the first derivatives of models of the potential
are the potential.
"""

import functools
import json
import re
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "data" / "jax_xc"))

import verify  # noqa: E402  of data/jax_xc

from dftfd.functionals import catalogue, libxc_source  # noqa: E402
from dftfd.interop import libxc  # noqa: E402
from dftfd.verify.point_comparison import compare  # noqa: E402
from dftfd.xc.variables import VARIABLES  # noqa: E402

VERDICTS, PAGE = ROOT / "functionals" / "libxc_verdicts.json", ROOT / "docs" / "libxc_formulas.md"
LIMITS = {"e": 1e-10, "d": 1e-8}


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
                reference = libxc.reference([(1.0, name)], self.x[n_spin], n_spin, order=1)
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
    for name in wanted or sorted(catalogue.source_table())[int(part) :: int(parts)]:
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
    pass


if __name__ == "__main__":
    {"measure": measure, "decide": decide}[sys.argv[1]](*sys.argv[2:])
