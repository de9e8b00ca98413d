"""Make dftfd/interactive/molecules.npz: python data/molecular_densities/make_densities.py

Hartree-Fock densities (ROHF for atoms, def2-QZVPPD, PySCF) of small molecules and their atoms, on grids that use the
symmetry of the species: prolate spheroidal coordinates for two atoms, spherical ones for an atom, the quarter of a
molecular grid for water. Along the axis of two atoms stand the derivatives that a potential takes.
Geometries and atomisation energies: set w4-17 of dftfd. No functional but Hartree-Fock is in the numbers.
"""

import itertools
import json
import math
from pathlib import Path

import numpy as np
from pyscf import dft, gto, scf

from dftfd.benchmarks.collections import read_set
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.system.geometry import parse_geometry

OUT = Path(__file__).parents[2] / "dftfd" / "interactive" / "molecules.npz"
BASIS = "def2-QZVPPD"
MOLECULES = {"H2": "h2", "HF": "hf", "N2": "n2", "CO": "co", "F2": "f2", "H2O": "h2o"}
"""Shown name -> name in the set."""

OPEN_SHELLS = {"H": {"A1g": (1, 0)}, "C": {"A1g": (2, 2), "E1ux": (1, 0), "E1uy": (1, 0)},
               "N": {"A1g": (2, 2), "A1u": (1, 0), "E1ux": (1, 0), "E1uy": (1, 0)},
               "O": {"A1g": (2, 2), "A1u": (1, 1), "E1ux": (1, 0), "E1uy": (1, 0)},
               "F": {"A1g": (2, 2), "A1u": (1, 0), "E1ux": (1, 1), "E1uy": (1, 1)}}  # fmt: skip
"""Electrons by irreducible representation of Dooh and spin: densities around the z axis."""

XI, ETA, RADIAL, COSINE = 64, 64, 120, 10
"""Points of the coordinates; PBE and TPSS would do with half of them, SCAN changes fast where alpha is 1."""

REACH = 4.0  # bohr beyond either atom, of the line
LINE = 161
LEAST = 1e-9  # of weight times density, below which a point is left out


def orders(most):
    """Multi-indices in the order of PySCF's derivatives."""
    return [a for k in range(most + 1) for a in itertools.product(range(k, -1, -1), repeat=3) if sum(a) == k]


def ao_derivatives(mol, points, most):
    values = mol.eval_gto(f"GTOval_sph_deriv{most}", points) if most else mol.eval_gto("GTOval_sph", points)[None]
    return dict(zip(orders(most), values, strict=True))


def plus(*indices):
    return tuple(map(sum, zip(*indices, strict=True)))


def product(f, g, order):
    """Derivatives of sum_k f_k g_k up to `order` by Leibniz' rule."""
    found = {}
    for a in orders(order):
        found[a] = 0.0
        for b in itertools.product(*(range(k + 1) for k in a)):
            binomial = math.prod(map(math.comb, a, b))
            rest = tuple(i - j for i, j in zip(a, b, strict=True))
            found[a] = found[a] + binomial * np.einsum("pk,pk->p", f[b], g[rest])
    return found


UNITS = np.eye(3, dtype=int)
TWICE = [tuple(2 * u) for u in UNITS]


def laplacian(f, order):
    return {a: sum(f[plus(a, u)] for u in TWICE) for a in orders(order)}


def scalar_product(f, g, order):
    """Derivatives of sum_i f_i g_i of scalar fields."""
    lifted = [{a: v[:, None] for a, v in one.items()} for one in (*f, *g)]
    parts = [product(lifted[i], lifted[3 + i], order) for i in range(3)]
    return {a: sum(p[a] for p in parts) for a in orders(order)}


def fields(ao, orbitals, order):
    """Derivatives of n, sigma, lapl n, tau of one spin, up to `order`. orbitals: (ao, occupied)."""
    phi = {a: v @ orbitals for a, v in ao.items()}
    n = product(phi, phi, order + 2)
    first = [{a: n[plus(a, tuple(u))] for a in orders(order)} for u in UNITS]
    slopes = [{a: phi[plus(a, tuple(u))] for a in orders(order)} for u in UNITS]
    parts = [product(s, s, order) for s in slopes]
    tau = {a: 0.5 * sum(p[a] for p in parts) for a in orders(order)}
    return n, first, laplacian(n, order), tau


def variables(spins, order):
    """The nine variables' derivatives: rows n, sigma, lapl, tau of one spin for closed shells, else all nine."""
    if len(spins) == 1:
        n, first, lapl, tau = spins[0]
        return [n, scalar_product(first, first, order), lapl, tau]
    (na, fa, la, ta), (nb, fb, lb, tb) = spins
    sigma = [scalar_product(f, g, order) for f, g in ((fa, fa), (fa, fb), (fb, fb))]
    return [na, nb, *sigma, la, lb, ta, tb]


def on_points(mol, orbitals, points, order):
    ao = ao_derivatives(mol, points, order + 2)
    return variables([fields(ao, C, order) for C in orbitals], order)


def rational(m, scale):
    """Nodes and weights of an integral over (0, infinity): x = scale (1 + t) / (1 - t), Gauss and Legendre in t."""
    t, w = np.polynomial.legendre.leggauss(m)
    return scale * (1 + t) / (1 - t), w * 2 * scale / (1 - t) ** 2


def two_centres(mol):
    """Points in the half plane of the axis, and weights with the angle around it."""
    z = mol.atom_coords()[:, 2]
    half, middle = abs(z[1] - z[0]) / 2, z.mean()
    u, wu = rational(XI, 0.5)
    t, wt = np.polynomial.legendre.leggauss(ETA)
    eta, we = t * (3 - t**2) / 2, wt * 1.5 * (1 - t**2)  # dense at the nuclei
    xi = 1 + u[:, None]
    rho = half * np.sqrt((xi**2 - 1) * (1 - eta**2))
    points = np.stack([rho, 0 * rho, middle + half * xi * eta], axis=-1)
    return points.reshape(-1, 3), (2 * np.pi * half**3 * (xi**2 - eta**2) * wu[:, None] * we).ravel()


def one_centre(mol):
    r, wr = rational(RADIAL, 1.0)
    c, wc = np.polynomial.legendre.leggauss(2 * COSINE)
    c, wc = c[COSINE:], 2 * wc[COSINE:]
    points = np.stack([np.outer(r, np.sqrt(1 - c**2)), np.zeros((RADIAL, COSINE)), np.outer(r, c)], axis=-1)
    return points.reshape(-1, 3), (2 * np.pi * np.outer(wr * r**2, wc)).ravel()


def quarter(mol):
    """Of a molecule with the mirrors x = 0 and y = 0."""
    grids = dft.gen_grid.Grids(mol)
    grids.atom_grid = {"O": (70, 194), "H": (50, 110)}
    grids.build(sort_grids=False)
    kept = np.all(grids.coords[:, :2] > -1e-9, axis=1)
    weights = grids.weights * np.prod(np.where(np.abs(grids.coords[:, :2]) < 1e-9, 1, 2), axis=1)
    return grids.coords[kept], weights[kept]


def solved(mol, name):
    if mol.natm > 1:
        mf = scf.RHF(mol)
    else:
        mf = scf.ROHF(mol)
        mf.irrep_nelec = OPEN_SHELLS[name]
    mf.conv_tol, mf.verbose = 1e-11, 3
    mf.kernel()
    assert mf.converged, name
    occupied = [mf.mo_coeff[:, mf.mo_occ > s] for s in ((0,) if mol.natm > 1 else (0, 1))]
    P = np.array([C @ C.T for C in (occupied * 2)[:2]])
    exchange = -0.5 * np.einsum("sij,sij", P, mf.get_k(mol, P))
    return mf.e_tot, float(exchange), occupied


def species(name, atoms):
    mol = gto.M(atom=atoms, unit="Bohr", basis=BASIS, verbose=0, symmetry="Dooh" if len(atoms) == 1 else False,
                spin={"H": 1, "C": 2, "N": 3, "O": 2, "F": 1}.get(name, 0))  # fmt: skip
    energy, exchange, orbitals = solved(mol, name)
    points, weights = {1: one_centre, 2: two_centres, 3: quarter}[mol.natm](mol)
    rows = on_points(mol, orbitals, points, 0)
    table = np.stack([row[0, 0, 0] for row in rows])
    n = 2 * table[0] if len(orbitals) == 1 else table[0] + table[1]
    print(f"{name:4s} E {energy:.6f}  E_x {exchange:.6f}  electrons {weights @ n - mol.nelectron:.1e}", end=" ")
    kept = weights * n > LEAST
    print(kept.sum(), "points")
    found = {"x": table[:, kept], "weights": weights[kept]}
    if mol.natm == 2:
        found |= line(mol, orbitals)
    return {"energy": energy, "exchange": exchange, "atoms": [s for s, _ in atoms]}, found


def line(mol, orbitals):
    z = np.sort(mol.atom_coords()[:, 2])
    s = np.linspace(z[0] - REACH, z[1] + REACH, LINE) + 1e-3  # beside the nuclei
    points = np.stack([0 * s, 0 * s, s], axis=-1)
    rows = on_points(mol, orbitals, points, 2)
    P = 2 * orbitals[0] @ orbitals[0].T
    hartree = np.einsum("gij,ij->g", mol.intor("int1e_grids", grids=points), P)
    return {
        "s": s - z[0],
        "line": np.stack([row[0, 0, 0] for row in rows]),
        "change": np.stack([row[0, 0, 1] for row in rows]),
        "laplacian": np.stack([sum(row[u] for u in TWICE) for row in rows]),
        "hartree": hartree,
    }


def along_axis(positions):
    """Two atoms on the z axis; three with the axis of symmetry along z and all in x = 0."""
    positions = np.asarray(positions)
    if len(positions) == 2:
        return np.outer([-0.5, 0.5], [0, 0, np.linalg.norm(positions[1] - positions[0])])
    a, b = positions[1] - positions[0], positions[2] - positions[0]
    bisector, across = (a + b) / np.linalg.norm(a + b), (a - b) / np.linalg.norm(a - b)
    return np.array([[0, v @ across, v @ bisector] for v in (0 * a, a, b)])


def geometry_of(found_set, name):
    """Atomisation energy [kcal/mol], and atoms with positions [bohr]."""
    reaction = next(r for r in found_set.reactions if r.name == name)
    geometry = parse_geometry(found_set.species[name].atoms)
    symbols = [atom.symbol for atom in geometry.names]
    order = sorted(range(len(symbols)), key=lambda k: symbols[k] == "H")
    positions = along_axis(np.asarray(geometry.coordinates)[order] / BOHR_IN_ANGSTROM)
    return reaction.reference, [(symbols[k], tuple(map(float, at))) for k, at in zip(order, positions, strict=True)]


def main():
    found_set = read_set("w4-17")
    about, arrays = {}, {}
    for symbol in OPEN_SHELLS:
        about[symbol], found = species(symbol, [(symbol, (0, 0, 0))])
        arrays |= {f"{symbol}.{key}": array for key, array in found.items()}
    for name, of_set in MOLECULES.items():
        reference, atoms = geometry_of(found_set, of_set)
        about[name], found = species(name, atoms)
        about[name]["reference"] = reference
        arrays |= {f"{name}.{key}": array for key, array in found.items()}
    about = {"species": about, "basis": BASIS, "source": found_set.source}
    np.savez_compressed(OUT, about=np.array(json.dumps(about)), **arrays)
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
