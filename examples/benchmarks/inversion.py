"""Potentials recovered from densities: PBE's own, helium's from full CI by two methods, water's from CCSD.

PBE's v_xc is known, so the potential that its density gives back is compared with it at the points of the grid where
n > 1e-3 bohr^-3: averaged over the volume, and how many of the electrons are where the two agree to 1e-2 hartree.
Constants put the highest orbital where PBE has it.

    python examples/benchmarks/inversion.py [rows.json [helium] [water] [own] [large] [fine]]
"""

import argparse
import itertools
import json
import platform
import time
import warnings

import jax
import numpy as np

import dftfd
from dftfd.interop.pyscf import correlated_density
from dftfd.libcint.mole import one_electron_integrals
from dftfd.runtime.files import picture
from dftfd.xc.density import evaluate_at

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
MOLECULES = {
    "Ne": ("Ne 0 0 0;", 0),
    "N2": ("N 0 0 0; N 0 0 1.0977", 0),
    "H2O": (WATER, 0),
    "OH": ("O 0 0 0; H 0 0 0.97", 1),
}
WAYS = {
    "wu-yang": {},
    "wu-yang from LDA": {"reference": "svwn"},
    "zhao-morrison-parr": {"method": "zhao-morrison-parr"},
}
LARGE_WAYS = {
    "Fermi-Amaldi": {},
    "LDA": {"reference": "svwn"},
    "LDA, 1e-7": {"reference": "svwn", "smoothing": 1e-7},
    "BLYP": {"reference": "blyp"},
    "PBEsol": {"reference": "gga_x_pbe_sol,gga_c_pbe_sol"},
}
FINE_WAYS = {
    f"{name}, {smoothing:.0e}": {"reference": reference, "smoothing": smoothing}
    for name, reference in (("LDA", "svwn"), ("PBEsol", "gga_x_pbe_sol,gga_c_pbe_sol"))
    for smoothing in (1e-6, 1e-8)
}
FINE_RATIO = 1.6
BASES = {"Ne": ("def2-tzvp", "def2-qzvp")}
SMOOTHINGS = 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8
FUNCTIONS = "even-tempered", "orbitals", "def2-universal-jfit"
DENSE, NEAR = 1e-3, 0.3
HELIUM_HOMO = -0.90372  # minus the ionisation energy, from the exact energies of He and He+


def own_potential(result, **options):
    """A row: how close the potential of a PBE density comes to PBE's."""
    molecule, begun = result.molecule, time.process_time()
    electrons = (molecule.n_alpha, molecule.n_beta)
    homo = [float(e[n - 1]) for e, n in zip(result.mo_energy, electrons, strict=False)]
    found = dftfd.invert(molecule, result, homo=homo, **options)
    seconds = time.process_time() - begun
    points, weights = result.grid
    rho = np.asarray(evaluate_at(result.density, points))
    dense = rho.sum(axis=1) > DENSE
    points, weights, rho = points[dense], weights[dense], rho[dense]
    distances = np.linalg.norm(points[:, None] - molecule.coordinates, axis=2).min(axis=1)
    off = np.abs(np.asarray(evaluate_at(found.potential, points)) - np.asarray(evaluate_at(result.v_xc, points)))
    n_spin = len(result.density_matrix)
    off, rho = off[:, :n_spin], rho[:, :n_spin]
    electrons = weights[:, None] * rho
    return {
        "density_error_per_electron": found.density_error / molecule.n_electrons,
        "smoothing": found.smoothing,
        "functions": found.coefficients.shape[1],
        "mean_over_volume": (weights @ off / weights.sum()).tolist(),
        "mean_over_electrons": float(np.sum(electrons * off) / electrons.sum()),
        "electrons_within_1e-2": float(electrons[off < 1e-2].sum() / electrons.sum()),
        "largest_beyond_0.3_bohr": float(off[distances > NEAR].max()),
        "within_1e-2_beyond_bohr": float(distances[(off >= 1e-2).any(axis=1)].max(initial=0.0)),
        "processor_seconds": round(seconds, 2),
    }


def own_potentials():
    for name, (atoms, spin) in MOLECULES.items():
        for basis in BASES.get(name, ("def2-tzvp",)):
            molecule = dftfd.molecule(atoms, basis=basis, spin=spin)
            result = dftfd.run_scf(molecule, "pbe", density_fit=False, conv_tol=1e-11)
            for way, options in WAYS.items():
                yield {"what": "PBE", "molecule": name, "basis": basis, "way": way} | own_potential(result, **options)
            if name == "H2O":
                yield from stability(result)


def even_tempered(l, lowest, highest, ratio=2.2):
    """Shells of one primitive each."""
    count = 1 + int(np.ceil(np.log(highest / lowest) / np.log(ratio)))
    return [[l, [lowest * ratio**k, 1.0]] for k in range(count)]


def large_basis(symbol, ratio=2.2):
    """Primitives from the tail of an atom to its nucleus."""
    if symbol == "H":
        return even_tempered(0, 0.06, 200, ratio) + even_tempered(1, 0.2, 5, ratio)
    Z = {"N": 7, "O": 8, "Ne": 10}[symbol]
    polarisation = even_tempered(2, 0.2, 6, ratio) if symbol != "Ne" else []
    return even_tempered(0, 0.08, 6e3 * Z**2, ratio) + even_tempered(1, 0.06, 8 * Z**2, ratio) + polarisation


def fine_functions(symbol):
    """Functions of the potential with exponents that lie closer to each other and go closer to the nucleus."""
    Z = {"H": 1, "N": 7, "O": 8, "Ne": 10}[symbol]
    ends = [(0.05, 1e3 * Z**2), (0.1, 30.0 * Z**2), (0.1, 1.2 * Z**2), (0.1, 0.12 * Z**2)]
    if symbol == "H":
        ends = [(0.05, 1e3), (0.1, 100.0), (0.2, 10.0)]
    return [shell for l, of in enumerate(ends) for shell in even_tempered(l, *of, FINE_RATIO)]


def large(names=MOLECULES):
    """PBE's own potentials where neither orbitals nor reference are what limits them."""
    for name in names:
        atoms, spin = MOLECULES[name]
        symbols = {line.split()[0] for line in atoms.split(";") if line.split()}
        molecule = dftfd.molecule(atoms, basis={symbol: large_basis(symbol) for symbol in symbols}, spin=spin)
        result = dftfd.run_scf(molecule, "pbe", density_fit=False, conv_tol=1e-11)
        for way, options in LARGE_WAYS.items():
            row = {"what": "PBE, large bases", "molecule": name, "functions_of_orbitals": molecule.n_ao, "way": way}
            yield row | own_potential(result, **options)


def fine(names=("Ne", "OH", "H2O", "N2")):
    """The same where the functions of the potential are not what limits them, either."""
    for name in names:
        atoms, spin = MOLECULES[name]
        symbols = {line.split()[0] for line in atoms.split(";") if line.split()}
        ratio = FINE_RATIO if name == "Ne" else 1.8
        molecule = dftfd.molecule(atoms, basis={symbol: large_basis(symbol, ratio) for symbol in symbols}, spin=spin)
        result = dftfd.run_scf(molecule, "pbe", density_fit=False, conv_tol=1e-12)
        functions = {symbol: fine_functions(symbol) for symbol in symbols}
        for way, options in FINE_WAYS.items():
            row = {"what": "PBE, fine functions", "molecule": name, "functions_of_orbitals": molecule.n_ao, "way": way}
            yield row | own_potential(result, potential_basis=functions, conv_tol=1e-10, **options)


def stability(result):
    """How the potential depends on smoothing and functions."""
    basis = result.molecule.basis
    for smoothing in SMOOTHINGS:
        row = own_potential(result, smoothing=smoothing)
        yield {"what": "PBE, smoothing", "molecule": "H2O", "basis": basis, "way": f"{smoothing:.0e}"} | row
    for functions in FUNCTIONS:
        row = own_potential(result, smoothing=1e-6, potential_basis=functions)
        yield {"what": "PBE, functions", "molecule": "H2O", "basis": basis, "way": functions} | row


def helium():
    """Full CI in an even-tempered basis: Gaussians and penalty against the formula of one orbital."""
    s = [[0, [0.08 * 1.9**k, 1.0]] for k in range(17)]
    polarised = [[l, [0.25 * 2.2**k, 1.0]] for l, n in ((1, 6), (2, 5), (3, 4)) for k in range(n)]
    molecule = dftfd.molecule("He 0 0 0;", basis={"He": s + polarised})
    P = correlated_density(molecule, "fci")
    r = np.linspace(0.1, 3.0, 59)
    points = r[:, None] * np.array([1.0, 0.0, 0.0])
    exact = dftfd.invert(molecule, P, method="one-orbital", homo=HELIUM_HOMO)
    curves = {"r": r.tolist(), "one-orbital": np.asarray(evaluate_at(exact.potential, points))[:, 0].tolist()}
    for way in ("wu-yang", "zhao-morrison-parr"):
        found = dftfd.invert(molecule, P, method=way, homo=HELIUM_HOMO)
        v = np.asarray(evaluate_at(found.potential, points))[:, 0]
        off = np.abs(v - np.array(curves["one-orbital"]))
        curves[way] = v.tolist()
        yield {
            "what": "He, full CI",
            "basis": "17s6p5d4f",
            "way": way,
            "density_error_per_electron": found.density_error / 2,
            "smoothing": found.smoothing,
            "kinetic_energy": found.kinetic_energy,
            "kinetic_energy_of_wave_function": float(np.sum(P * one_electron_integrals(molecule)["kinetic"])),
            "mean_off_0.1_to_3_bohr": float(off.mean()),
            "largest_off_0.1_to_3_bohr": float(off.max()),
        }
    yield {"what": "He, curves", **curves}


def water():
    """CCSD's density in two bases."""
    for basis in ("def2-tzvp", "def2-qzvp"):
        molecule = dftfd.molecule(WATER, basis=basis)
        P = correlated_density(molecule, "ccsd")
        for way in ("wu-yang", "zhao-morrison-parr")[: 2 if basis == "def2-tzvp" else 1]:  # the other takes minutes
            begun = time.process_time()
            found = dftfd.invert(molecule, P, method=way)
            yield {
                "what": "H2O, CCSD",
                "basis": basis,
                "way": way,
                "density_error_per_electron": found.density_error / 10,
                "smoothing": found.smoothing,
                "kinetic_energy": found.kinetic_energy,
                "kinetic_energy_of_wave_function": float(np.sum(P * one_electron_integrals(molecule)["kinetic"])),
                "homo": found.frontier[0][0],
                "homo_lumo_gap": found.frontier[0][1] - found.frontier[0][0],
                "processor_seconds": round(time.process_time() - begun, 2),
            }


def draw(rows, path):
    """Helium's potential by three methods."""
    (curves,) = (row for row in rows if row["what"] == "He, curves")
    with picture(path) as figure:
        axes = figure.subplots()
        for way in ("one-orbital", "wu-yang", "zhao-morrison-parr"):
            axes.plot(curves["r"], curves[way], label=way)
        axes.set(xlabel="r / bohr", ylabel=r"$v_\mathrm{xc}$ / hartree", title="helium, from the density of full CI")
        axes.legend(frameon=False)


def main():
    known = {"helium": helium, "water": water, "own": own_potentials, "large": large, "fine": fine}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="the file that gets the rows")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(known)}; all where none is named")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; the parts are {', '.join(known)}.")
    path, rows = options.path, []
    warnings.simplefilter("ignore")
    for row in itertools.chain.from_iterable(known[name]() for name in options.parts or known):
        rows.append(row)
        print({name: value for name, value in row.items() if not isinstance(value, list) or len(value) < 3}, flush=True)
        if path is not None:
            about = {"dftfd": dftfd.__version__, "jax": jax.__version__, "python": platform.python_version()}
            with open(path, "w") as stream:
                json.dump({"about": about, "rows": rows}, stream, indent=1)
                stream.write("\n")


if __name__ == "__main__":
    main()
