"""Psi4's functionals at sample points: run by Psi4's own Python, `python3 psi4_functionals.py SAMPLE.json OUT.json`.

For each name of Psi4's table: energy per volume without exact exchange and nonlocal correlation, fractions of exact
exchange, and the type of its dispersion correction. Nothing of dftfd is imported here.
"""

import json
import sys

sys.path.insert(0, "/usr/lib/x86_64-linux-gnu")  # where Debian's package is
import numpy as np  # noqa: E402
import psi4  # noqa: E402
from psi4.driver.procrouting.dft import build_superfunctional_from_dictionary, functionals  # noqa: E402


def main(sample_file: str, out_file: str) -> None:
    psi4.core.set_output_file("/dev/null", False)
    with open(sample_file) as file:
        sample = json.load(file)
    variables = {name: psi4.core.Vector.from_array(np.array(values)) for name, values in sample.items()}
    n_points = len(sample["RHO_A"])
    found = {}
    for name, definition in functionals.items():
        functional, _ = build_superfunctional_from_dictionary(definition, n_points, 1, False)
        functional.set_max_points(n_points)
        functional.set_deriv(1)
        functional.allocate()
        values = functional.compute_functional(variables, n_points)
        found[name] = {
            "energy": np.array(values["V"])[:n_points].tolist() if "V" in values else [0.0] * n_points,
            "short_range": functional.x_alpha(),
            "long_range": functional.x_alpha() + (functional.x_beta() if functional.is_x_lrc() else 0.0),
            "omega": functional.x_omega(),
            "pt2_share": functional.c_alpha(),
            "vv10": [functional.vv10_b(), functional.vv10_c()] if functional.needs_vv10() else None,
            "dispersion": definition.get("dispersion", {}).get("type", ""),
        }
    with open(out_file, "w") as file:
        json.dump({"version": psi4.__version__, "functionals": found}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
