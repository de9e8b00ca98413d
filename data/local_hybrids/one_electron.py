"""One electron with a local hybrid that is exact for it, LH07t-SVWN and PBE beside Hartree-Fock; one_electron.json.

    python data/local_hybrids/one_electron.py

Ions of one electron, and the dissociation of H2+ from 0.8 to 20 bohr, def2-QZVP, grid level 4. docs/images/h2_plus.py
draws the curve from these rows.
"""

import json
import pathlib

import dftfd
from dftfd.functionals.b88 import unpolarised_exchange
from dftfd.functionals.common import spin_scaled
from dftfd.functionals.local_hybrids import t_mixing

OUT = pathlib.Path(__file__).with_suffix(".json")
OPTIONS = {"density_fit": False, "grid_level": 4, "conv_tol": 1e-10}
DISTANCES = [0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0]
FUNCTIONALS = ("x_one_electron, gga_c_lyp", "lh07t_svwn", "pbe")


@dftfd.functional("x_one_electron")
@spin_scaled
def one_electron_exchange(n, tau, e_x):
    """Exact where one orbital alone has a density, t = tau_W / tau = 1; LYP is zero there. B88 in a uniform gas."""
    t = t_mixing(n, tau)
    return t * e_x + (1 - t) * unpolarised_exchange(n, 0.0042)


def energies(atoms, charge):
    molecule = dftfd.molecule(atoms, basis="def2-qzvp", charge=charge, spin=1, unit="bohr")
    found = {"hf": dftfd.run_scf(molecule, "hf", density_fit=False, conv_tol=1e-10).energy}
    for name in FUNCTIONALS:
        result = dftfd.run_scf(molecule, name, **OPTIONS)
        found[name] = result.energy if result.converged else None
    return found


def main():
    rows = {"ions": {}, "H2+": []}
    for symbol, charge in (("H", 0), ("He", 1), ("Li", 2)):
        rows["ions"][symbol + "+" * charge] = energies(f"{symbol} 0 0 0;", charge)
        print(symbol, rows["ions"][symbol + "+" * charge], flush=True)
    for R in DISTANCES:
        rows["H2+"].append({"bohr": R} | energies(f"H 0 0 0; H 0 0 {R}", 1))
        print(rows["H2+"][-1], flush=True)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
