"""Geometries of the benchmarks, in angstrom: `atoms(name)` gives [(symbol, (x, y, z)), ...].

Water, benzene and C60 are built from bond lengths and symmetry; caffeine, aspirin, levodopa (25 atoms) and the alanine
tripeptide (N-acetyl, N'-methylamide) are MMFF94 minima; chains of alanine are built from mean bond lengths and angles;
vitamin C, penicillin V, tamoxifen, raffinose, taxol and valinomycin are read from data/large_molecules.
`geometry(name, ...)` is PySCF's molecule.
"""

import itertools
import math
from pathlib import Path

import numpy as np
from pyscf import gto

PYSCF_MEMORY = 16_000
"""MB that PySCF may use: enough to keep the fitting tensor of C60, which would go to disk by its default of 4,000."""

LARGE = Path(__file__).parents[2] / "data" / "large_molecules"

_LISTED = {
    "caffeine": """
        C  3.3240  0.0586 -0.2341
        N  2.0576 -0.6273 -0.1930
        C  1.8677 -1.9814 -0.2775
        N  0.5898 -2.2984 -0.2089
        C -0.0493 -1.1027 -0.0764
        C  0.8236 -0.0575 -0.0632
        C  0.4145  1.2974  0.0644
        O  1.2096  2.2324  0.0753
        N -0.9723  1.4358  0.1738
        C -1.9078  0.3797  0.1643
        O -3.1177  0.6035  0.2673
        N -1.4057 -0.9156  0.0344
        C -2.3013 -2.0577  0.0157
        C -1.5170  2.7725  0.3099
        H  4.1303 -0.6709 -0.3448
        H  3.3235  0.7394 -1.0890
        H  3.4519  0.6097  0.7009
        H  2.6840 -2.6844 -0.3870
        H -3.3478 -1.7571  0.1125
        H -2.0503 -2.7222  0.8485
        H -2.1779 -2.5931 -0.9311
        H -2.2066  2.9616 -0.5194
        H -2.0793  2.8336  1.2475
        H -0.7434  3.5442  0.3100
    """,
    "aspirin": """
        C  2.9005  1.8641  0.0817
        C  1.8778  0.8577 -0.3535
        O  1.7110  0.4966 -1.5115
        O  1.1903  0.4021  0.7660
        C  0.1525 -0.4755  0.4386
        C  0.4128 -1.8416  0.5878
        C -0.5881 -2.7692  0.3057
        C -1.8450 -2.3323 -0.1112
        C -2.1078 -0.9645 -0.2411
        C -1.1114 -0.0166  0.0400
        C -1.3923  1.4393 -0.0678
        O -0.6453  2.3553  0.2228
        O -2.6276  1.6930 -0.5417
        H  3.4052  2.2709 -0.7993
        H  3.6438  1.3829  0.7220
        H  2.4115  2.6867  0.6094
        H  1.3921 -2.1809  0.9135
        H -0.3884 -3.8330  0.4087
        H -2.6253 -3.0566 -0.3340
        H -3.0988 -0.6502 -0.5607
        H -2.6675  2.6718 -0.5756
    """,
    "levodopa": """
        N -3.3924 -0.4755 -0.7979
        C -2.0971 -0.0698 -0.1945
        C -0.9545 -0.3287 -1.1898
        C  0.3954 -0.4540 -0.5145
        C  0.7774 -1.6703  0.0800
        C  2.0130 -1.7930  0.7194
        C  2.8622 -0.6988  0.7662
        O  4.0687 -0.8160  1.3947
        C  2.4967  0.5113  0.1844
        O  3.3777  1.5539  0.2739
        C  1.2707  0.6418 -0.4592
        C -2.1824  1.4109  0.2094
        O -1.3940  2.3095 -0.0337
        O -3.2931  1.6698  0.9449
        H -4.1328 -0.1910 -0.1504
        H -3.4329 -1.4924 -0.8457
        H -1.9489 -0.6464  0.7268
        H -1.1314 -1.2661 -1.7355
        H -0.9158  0.4550 -1.9578
        H  0.1155 -2.5330  0.0449
        H  2.3097 -2.7322  1.1759
        H  4.4797  0.0658  1.2939
        H  2.9603  2.3300 -0.1396
        H  0.9827  1.5863 -0.9131
        H -3.2345  2.6328  1.1170
    """,
    "ala3": """
        C -3.2646  0.6677 -2.5088
        C -3.5447  0.0315 -1.1751
        O -3.9403  0.6748 -0.2061
        N -3.2915 -1.3196 -1.1212
        C -3.3968 -2.0563  0.1408
        C -3.6739 -3.5275 -0.1374
        C -2.0781 -1.8726  0.9222
        O -1.2218 -2.7479  1.0207
        N -1.9246 -0.6047  1.4534
        C -0.6078 -0.1470  1.8705
        C -0.7414  0.9810  2.8852
        C  0.1815  0.3335  0.6287
        O -0.3257  0.4774 -0.4840
        N  1.5061  0.6142  0.8736
        C  2.4281  1.0043 -0.1858
        C  2.2841  2.4846 -0.5198
        C  3.8578  0.6878  0.2946
        O  4.0957  0.3607  1.4576
        N  4.8340  0.7994 -0.6721
        C  6.2257  0.5994 -0.3557
        H -4.1228  1.2796 -2.7996
        H -2.3737  1.2955 -2.4271
        H -3.0999 -0.0839 -3.2858
        H -2.6130 -1.6721 -1.7867
        H -4.2159 -1.6406  0.7395
        H -4.6193 -3.6484 -0.6769
        H -2.8840 -3.9768 -0.7501
        H -3.7365 -4.0960  0.7965
        H -2.5464  0.1046  1.0612
        H -0.0630 -0.9870  2.3170
        H  0.2375  1.3092  3.2494
        H -1.3339  0.6594  3.7485
        H -1.2398  1.8521  2.4445
        H  1.9336  0.3191  1.7488
        H  2.2161  0.3925 -1.0705
        H  2.9561  2.7786 -1.3322
        H  1.2612  2.7247 -0.8277
        H  2.5235  3.1080  0.3494
        H  4.5957  1.1715 -1.5825
        H  6.7685  0.4022 -1.2830
        H  6.6107  1.5092  0.1122
        H  6.3436 -0.2422  0.3320
    """,
}


def _water(bond=0.9572, angle=104.52):
    half = math.radians(angle / 2)
    y, z = bond * math.sin(half), bond * math.cos(half)
    return [("O", (0.0, 0.0, 0.0)), ("H", (0.0, y, z)), ("H", (0.0, -y, z))]


def _benzene(carbon_carbon=1.397, carbon_hydrogen=1.084):
    def ring(symbol, radius):
        return [
            (symbol, (radius * math.cos(k * math.pi / 3), radius * math.sin(k * math.pi / 3), 0.0)) for k in range(6)
        ]

    return ring("C", carbon_carbon) + ring("H", carbon_carbon + carbon_hydrogen)


def _benzene_cation():
    """Stretched by 2 % along one axis: in the regular ring the hole has two orbitals to choose from; DIIS wanders."""
    return [(symbol, (1.02 * x, 0.98 * y, z)) for symbol, (x, y, z) in _benzene()]


def _c60(bond=1.43):
    """Truncated icosahedron with all edges equal."""
    golden = (1 + math.sqrt(5)) / 2
    seeds = [(0.0, 1.0, 3 * golden), (1.0, 2 + golden, 2 * golden), (golden, 2.0, 2 * golden + 1)]
    vertices = {
        tuple(round(seed[(i + shift) % 3] * signs[(i + shift) % 3], 9) + 0.0 for i in range(3))
        for seed in seeds
        for signs in itertools.product((1, -1), repeat=3)
        for shift in range(3)
    }
    return [("C", tuple((bond / 2 * np.array(vertex)).tolist())) for vertex in sorted(vertices)]


def _parsed(text):
    rows = (line.split() for line in text.strip().splitlines())
    return [(symbol, tuple(map(float, xyz))) for symbol, *xyz in rows]


def alanine(n_residues):
    """H-(Ala)n-OH as a fully extended chain, from the mean bond lengths and angles of peptides.

    R. A. Engh, R. Huber, Acta Cryst. A 47, 392 (1991). doi:10.1107/S0108767391001071
    """
    chain = _Chain()
    before = None
    for _ in range(n_residues):
        if before is None:
            N, CA, C = (chain.add(symbol, xyz) for symbol, xyz in _FIRST_RESIDUE)
            chain.place("H", C, CA, N, 1.01, 109.5, 60.0)
            chain.place("H", C, CA, N, 1.01, 109.5, -60.0)
        else:
            N = chain.place("N", *before, 1.329, 116.2, 180.0)
            CA = chain.place("C", before[1], before[2], N, 1.458, 121.7, 180.0)
            C = chain.place("C", before[2], N, CA, 1.525, 111.2, 180.0)
            chain.place("H", C, CA, N, 1.01, 119.0, 0.0)
        CB = chain.place("C", N, C, CA, 1.521, 110.4, -122.0)
        chain.place("H", N, C, CA, 1.09, 108.5, 119.0)
        for turn in (60.0, 180.0, -60.0):
            chain.place("H", N, CA, CB, 1.09, 109.5, turn)
        chain.place("O", N, CA, C, 1.231, 120.8, 0.0)
        before = N, CA, C
    hydroxyl = chain.place("O", *before, 1.34, 113.0, 180.0)
    chain.place("H", before[1], before[2], hydroxyl, 0.97, 107.0, 180.0)
    return chain.atoms


_FIRST_RESIDUE = (
    ("N", (0.0, 0.0, 0.0)),
    ("C", (1.458, 0.0, 0.0)),
    ("C", (1.458 - 1.525 * math.cos(math.radians(111.2)), 1.525 * math.sin(math.radians(111.2)), 0.0)),
)


class _Chain:
    """Atoms that are placed relative to earlier ones, which are known by their numbers."""

    def __init__(self):
        self.atoms = []

    def add(self, symbol, xyz) -> int:
        self.atoms.append((symbol, tuple(map(float, xyz))))
        return len(self.atoms) - 1

    def place(self, symbol, a, b, c, bond, angle, dihedral) -> int:
        """At `bond` from c, `angle` b-c-new, `dihedral` a-b-c-new [degrees]."""
        A, B, C = (np.array(self.atoms[k][1]) for k in (a, b, c))
        u = (C - B) / np.linalg.norm(C - B)
        n = np.cross(B - A, u)
        n /= np.linalg.norm(n)
        theta, phi = math.radians(angle), math.radians(dihedral)
        direction = np.array([-math.cos(theta), math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi)])
        return self.add(symbol, C + bond * (direction @ np.stack([u, np.cross(n, u), n])))


_BUILT = {"water": _water, "benzene": _benzene, "benzene_cation": _benzene_cation, "c60": _c60}
READ = ("vitamin_c", "penicillin_v", "tamoxifen", "raffinose", "taxol", "valinomycin")
NAMES = (*_BUILT, *_LISTED, *(f"alanine{n}" for n in range(1, 17)), *READ)


def atoms(name: str):
    """The atoms of a benchmark molecule [angstrom]; alanine1 to alanine16 are chains of so many residues."""
    if name in READ:
        return _parsed("\n".join((LARGE / f"{name}.xyz").read_text().splitlines()[2:]))
    if name.startswith("alanine"):
        return alanine(int(name.removeprefix("alanine")))
    return _BUILT[name]() if name in _BUILT else _parsed(_LISTED[name])


def geometry(molecule, basis="def2-svp", charge=0, pair=None):
    """PySCF's molecule; that of a pair has its atoms displaced at random by 1e-3 bohr."""
    mole = gto.M(atom=atoms(molecule), basis=basis, charge=charge, spin=charge % 2, verbose=0)
    mole.max_memory = PYSCF_MEMORY
    if pair is None:
        return mole
    displacement = np.random.default_rng(5 + pair).uniform(-1e-3, 1e-3, (mole.natm, 3))
    return mole.set_geom_(mole.atom_coords() + displacement, unit="Bohr", inplace=False)
