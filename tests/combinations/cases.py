"""Random calculations: a molecule, a basis, a functional, options, and the properties that are to be checked.

A case is plain data, so that it can be kept, shrunk and run again: `Case.of(json)` and `case.json()`. What is drawn has
no symmetry: positions are shifted and turned at random, so that nothing is right because it vanishes. Molecules are
small, so that a case takes about a second; several properties share one calculation, as they do for users.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

MOLECULES = {
    "closed": ["H 0 0 0; H 0 0 0.8", "Li 0 0 0; H 0 0 1.6", "F 0 0 0; H 0 0 0.95", "He 0 0 0;", "B 0 0 0; H 0 0 1.25"],
    "open": [
        "H 0 0 0; | 0 1",
        "Li 0 0 0; | 0 1",
        "Be 0 0 0; H 0 0 1.35 | 0 1",
        "H 0 0 0; H 0 0 0.9; H 0 0.8 0.4 | 0 1",
        "He 0 0 0; H 0 0 1.5 | 0 1",
        "C 0 0 0; H 0 0.99 0.35; H 0 -0.99 0.35 | 0 2",
    ],
    "charged": [
        "He 0 0 0; H 0 0 0.8 | 1 0",
        "H 0 0 0; H 0 0 1.06 | 1 1",
        "Li 0 0 0; | 1 0",
        "H 0 0 0; H 0 0 0.9; H 0 0.8 0.4 | 1 0",
        "O 0 0 0; H 0 0 0.98 | -1 0",
        "H 0 0 0; | -1 0",
    ],
    "heavy": ["Na 0 0 0; H 0 0 1.9", "K 0 0 0; | 1 0", "Zn 0 0 0;", "Na 0 0 0; | 0 1", "Br 0 0 0; H 0 0 1.42"],
    "ghost": [
        "He 0 0 0; ghost-He 0 1.5 0.3",
        "ghost-H 0.5 1.2 0.1; Li 0 0 0; H 0 0 1.6",
        "H 0 0 0; H 0 0 0.8; ghost-Li 0 0.4 2.2",
        "ghost-Be 0.3 0.1 1.9; H 0 0 0; | 0 1",
    ],
}
"""Kinds of molecules: positions in angstrom, then charge and number of unpaired electrons."""
BASES = {
    "small": ["sto-3g", "6-31g", "3-21g"],
    "polarised": ["6-31g**", "def2-svp", "6-31++g"],
    "general contractions": ["cc-pvdz", "ano-rcc-mb"],
    "mixed": [{"default": "sto-3g", "H": "6-31g", "He": "cc-pvdz"}, {"default": "6-31g", "H": "sto-3g"}],
}
HEAVY_BASES = ["lanl2dz", "sbkjc", "lanl2dz"]
KNOWN_ELEMENTS = {"ano-rcc-mb": "H He Li Be B C O F", "6-31++g": "H Li Be B C O F"}

FUNCTIONALS = {
    "Hartree-Fock": ["hf"],
    "LDA": ["lda,vwn", "lda,pw"],
    "GGA": ["pbe", "blyp"],
    "meta-GGA": ["tpss", "r2scan", "m06l"],
    "Laplacian": ["scanl", "mgga_x_br89, pbe", "lapl_x_combination"],
    "hybrid": ["pbe0", "b3lyp", "0.4*HF + 0.6*PBE, PBE"],
    "hybrid meta-GGA": ["tpssh", "m062x"],
    "range-separated": ["camb3lyp", "hse06", "wb97x"],
    "VV10": ["pbe + 0.8*vv10", "wb97xv", "pair_combination"],
    "vdW-DF": ["vdw_df2"],
    "local hybrid": ["lh07t_svwn", "lc_lh07t_svwn", "0.3*sn_x + 0.7*lda, vwn"],
    "double hybrid": ["b2plyp"],
    "model potential": ["lb94"],
    "dispersion": ["pbe-d3bj", "b3lyp-d4"],
    "own formula": ["gga_x_combination, pbe", "mgga_x_combination", "r_x_combination"],
    "network": ["net_x_combination"],
    "grid functional": ["grid_x_combination"],
}
DOUBLE_INTEGRALS = {"vdw": 1, "vv10": 2, "xv": 2, "pair": 2}
"""Parts of the names of functionals with double integrals, and for how many atoms they are tried: they take longest."""
RIPPLED = {name: 2 for name in FUNCTIONALS["Laplacian"]}
"""Functionals whose energies ripple with the points of coarse grids: how many light atoms are tried, on finer ones."""
OPTIONS: dict[str, list[dict]] = {
    "none": [{}],
    "field": [{"electric_field": [0.004, -0.007, 0.005]}],
    "charges": [{"point_charges": [[0.3, 5.0, 1.0, -2.0], [-0.2, -1.0, 6.0, 3.0]]}],
    "potential": [{"external_potential": "well"}, {"external_potential": "wall of electrons"}],
    "solvent": [
        {"solvent": "water", "solvent_model": name} for name in ("cpcm", "iefpcm", "cosmo", "ssvpe", "smd", "smd")
    ],
    "relativity": [{"relativity": "x2c"}],
    "smearing": [{"smearing": 0.03}, {"smearing": 0.08}, {"smearing": ["gaussian", 0.05]}],
    "occupations": [{"occupations": "fractional"}],
    "symmetry": [{"broken_symmetry": "mix"}],
    "convergence": [{"convergence": name} for name in ("hard", "second-order", "direct", "adiis", "diis")],
    "start": [{"guess": "core"}, {"guess": "hueckel"}, {"guess": "sap"}, {"level_shift": 0.2}, {"damping": 0.3}],
    "grid": [{"grid": "given"}, {"grid_level": 2}],
    "fitting": [
        {"density_fit": True, "auxiliary_basis": name}
        for name in ("def2-universal-jkfit", "def2-universal-jfit", "def2-qzvp-ri")
    ],
    "terms": [{"terms": "constraint"}, {"terms": "dft+u"}],
    "linear dependence": [{"linear_dependence": 0.02}, {"linear_dependence": 0.15}],
}
PROPERTIES = (
    "energy", "orbital_energies", "components", "traced_energy", "janak", "forces", "force_sums", "hessian", "dipole",
    "polarizability", "dynamic_polarizability", "hyperpolarizability", "infrared", "vibrations", "raman",
    "excitations", "tamm_dancoff", "excitations_of_pyscf", "spin_flips", "excited_forces", "excited_dipole",
    "parameters", "save_load", "restart", "memory", "threads", "order", "rotation", "spins", "spin_exchange", "size",
    "to_pyscf", "export", "stability",
)  # fmt: skip

ESSENTIAL = ("energy", "forces", "hessian", "polarizability", "excitations_of_pyscf", "excited_forces")
"""Of which every other calculation has one for certain."""


@dataclass(frozen=True)
class Case:
    """One combination. atoms: (symbol, (x, y, z)) [angstrom].   options: of run_scf.   seed: of the check's numbers."""

    atoms: list
    charge: int
    spin: int
    basis: Any
    xc: str
    property: str
    cartesian: bool = False
    method: str = "auto"
    options: dict = field(default_factory=dict)
    seed: int = 0

    def json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "Case":
        return cls(**json.loads(text))

    @property
    def is_open(self) -> bool:
        """Whether the calculation has matrices of both spins."""
        return bool(self.spin) or self.method != "auto"

    def simpler(self) -> list["Case"]:
        """Cases with one thing less; a defect is reported as the simplest one that still has it."""
        fewer = [
            replace(self, options={k: v for k, v in self.options.items() if k != name})
            for name in self.options
            if name != "grid_level"
        ]
        plain = [replace(self, basis="sto-3g"), replace(self, cartesian=False), replace(self, method="auto")]
        simplest = {"lda,vwn": [], "pbe": ["lda,vwn"]}.get(self.xc, ["lda,vwn", "pbe"])
        return [case for case in [*fewer, *plain, *(replace(self, xc=xc) for xc in simplest)] if case != self]


def _one_of(rng, options):
    return options[int(rng.integers(len(options)))]


def _molecule(rng, kind):
    """(atoms, charge, spin), shifted and turned."""
    text, _, numbers = _one_of(rng, MOLECULES[kind]).partition("|")
    charge, spin = (int(n) for n in numbers.split()) if numbers else (0, 0)
    rows = [row.split() for row in text.strip().strip(";").split(";")]
    positions = np.array([[float(x) for x in row[1:]] for row in rows])
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    positions = (positions + rng.normal(scale=0.02, size=positions.shape)) @ rotation.T + rng.normal(scale=0.3, size=3)
    return [(row[0], [round(float(x), 6) for x in r]) for row, r in zip(rows, positions, strict=True)], charge, spin


def _basis(rng, kind, atoms):
    if kind == "heavy":
        return _one_of(rng, HEAVY_BASES)
    basis = _one_of(rng, BASES[_one_of(rng, ["small", "small", *BASES])])
    known = KNOWN_ELEMENTS.get(basis) if isinstance(basis, str) else None
    elements = {symbol.removeprefix("ghost-") for symbol, _ in atoms}
    return basis if known is None or elements <= set(known.split()) else "6-31g"


def _fractional(rng, charge_of_nuclei, restricted) -> list:
    """Occupations that are neither full nor empty at the frontier."""
    pairs, odd = divmod(charge_of_nuclei, 2)
    part = round(float(rng.uniform(0.2, 0.8)), 3)
    if restricted:
        return [[*[2.0] * (pairs - 1), 2.0 - part if pairs else 0.0]]
    return [[*[1.0] * (pairs - 1 + odd), part], [*[1.0] * (pairs - 1), 1.0 - part / 2]]


def draw(rng: np.random.Generator, properties=PROPERTIES, each: int = 1) -> list[Case]:
    """One calculation of the kinds above, each kind as likely as the next, and `each` properties of it."""
    xc = _one_of(rng, FUNCTIONALS[_one_of(rng, list(FUNCTIONALS))])
    most = next((n for part, n in DOUBLE_INTEGRALS.items() if part in xc), RIPPLED.get(xc, 9))
    while True:
        kind = _one_of(rng, list(MOLECULES))
        atoms, charge, spin = _molecule(rng, kind)
        if len(atoms) <= most and (most == 9 or kind != "heavy"):
            break
    options: dict[str, Any] = {"grid_level": int(rng.integers(2)), "density_fit": bool(rng.integers(2))}
    for name in rng.permutation(list(OPTIONS))[: _one_of(rng, [1, 1, 1, 2, 2, 3])]:
        options |= _one_of(rng, OPTIONS[name])
    if xc in RIPPLED:
        options["grid_level"] = 2
    method = _one_of(rng, ["auto", "auto", "UKS", "ROKS"] if spin else ["auto", "auto", "auto", "UKS"])
    if "broken_symmetry" in options and (method == "ROKS" or not spin):
        method = "UKS"  # a restricted calculation has no symmetry of spins to break
    if {"occupations", "smearing"} <= set(options):  # either decides
        del options["smearing"]
    if "occupations" in options:
        options["occupations"] = _fractional(rng, 2 + spin, not spin and method == "auto")
    chosen = [str(name) for name in rng.permutation(list(properties))]
    essential = [name for name in chosen if name in ESSENTIAL]
    if essential and _one_of(rng, [True, False]):
        chosen = list(dict.fromkeys([essential[0], *chosen]))
    chosen = chosen[:each]
    if any(part in xc for part in DOUBLE_INTEGRALS):
        options["nlc_grid_level"] = 0
    case = Case(
        atoms,
        charge,
        spin,
        basis=_basis(rng, kind, atoms),
        xc=xc,
        property=chosen[0],
        cartesian=_one_of(rng, [False, False, True]),
        method=method,
        options=options,
        seed=int(rng.integers(2**31)),
    )
    return [replace(case, property=name) for name in chosen]
