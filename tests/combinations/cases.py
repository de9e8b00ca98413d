"""Random calculations: a molecule, a basis, a functional, an environment, and a property that is to be checked.

A case is plain data, so that it can be kept, shrunk and run again: `Case.of(json)` and `case.json()`. What is drawn has
no symmetry: positions are shifted and turned at random, so that nothing is right because it vanishes.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

MOLECULES = {
    "closed": [
        "H 0 0 0; H 0 0 0.8",
        "Li 0 0 0; H 0 0 1.6",
        "F 0 0 0; H 0 0 0.95",
        "O 0 0 0; H 0 0.76 0.59; H 0 -0.76 0.59",
        "C 0 0 0; O 0 0 1.15",
    ],
    "open": [
        "O 0 0 0; H 0 0 0.98 | 0 1",
        "C 0 0 0; H 0 0.99 0.35; H 0 -0.99 0.35 | 0 2",
        "Li 0 0 0; | 0 1",
        "O 0 0 0; O 0 0 1.22 | 0 2",
    ],
    "charged": [
        "O 0 0 0; H 0 0 0.98 | -1 0",
        "He 0 0 0; H 0 0 0.8 | 1 0",
        "H 0 0 0; H 0 0 1.06 | 1 1",
        "F 0 0 0; H 0 0 1.0 | 1 1",
    ],
    "heavy": ["Br 0 0 0; H 0 0 1.42", "Ag 0 0 0; H 0 0 1.62", "I 0 0 0; H 0 0 1.62"],
    "ghost": [
        "F 0 0 0; H 0 0 0.95; ghost-He 0 1.5 0.3",
        "ghost-H 0.5 1.2 0.1; Li 0 0 0; H 0 0 1.6",
        "O 0 0 0; H 0 0 0.98; ghost-O 0 0 2.9 | 0 1",
    ],
}
"""Kinds of molecules: positions in angstrom, then charge and number of unpaired electrons."""
BASES: list[Any] = [
    "sto-3g",
    "6-31g",
    "6-31g*",
    "def2-svp",
    "cc-pvdz",
    {"default": "sto-3g", "H": "6-31g", "O": "6-31g"},
]
HEAVY_BASES = ["def2-svp", "lanl2dz"]

FUNCTIONALS = {
    "Hartree-Fock": ["hf"],
    "LDA": ["lda,vwn", "lda,pw"],
    "GGA": ["pbe", "blyp", "bp86"],
    "meta-GGA": ["tpss", "r2scan", "m06l"],
    "Laplacian": ["scanl"],
    "hybrid": ["pbe0", "b3lyp", "0.4*HF + 0.6*PBE, PBE"],
    "hybrid meta-GGA": ["tpssh", "m062x"],
    "range-separated": ["camb3lyp", "hse06", "wb97x", "lc_wpbe"],
    "VV10": ["pbe + 1.0*vv10", "wb97xv", "b97mv"],
    "local hybrid": ["lh07t_svwn"],
    "double hybrid": ["b2plyp"],
    "dispersion": ["pbe-d3bj", "b3lyp-d4"],
    "own": ["gga_x_combination, pbe"],
    "grid functional": ["grid_x_combination"],
}
ENVIRONMENTS: dict[str, list[dict]] = {
    "none": [{}],
    "field": [{"electric_field": [0.004, -0.007, 0.005]}],
    "charges": [{"point_charges": [[0.3, 5.0, 1.0, -2.0], [-0.2, -1.0, 6.0, 3.0]]}],
    "solvent": [{"solvent": "water", "solvent_model": name} for name in ("cpcm", "iefpcm", "cosmo", "ssvpe")],
    "relativity": [{"relativity": "x2c"}],
    "smearing": [{"smearing": 0.03}, {"smearing": 0.08}],
}
PROPERTIES = (
    "energy", "forces", "force_sums", "hessian", "dipole", "polarizability", "excitations", "excited_forces",
    "parameters", "save_load", "restart", "order", "spins", "to_pyscf", "orbital_energies",
)  # fmt: skip


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


def draw(rng: np.random.Generator, properties=PROPERTIES) -> Case:
    """A case of the kinds above, each kind as likely as the next."""

    def one_of(options):
        return options[int(rng.integers(len(options)))]

    kind = one_of(list(MOLECULES))
    text, _, numbers = one_of(MOLECULES[kind]).partition("|")
    charge, spin = (int(n) for n in numbers.split()) if numbers else (0, 0)
    rows = [row.split() for row in text.strip().strip(";").split(";")]
    positions = np.array([[float(x) for x in row[1:]] for row in rows])
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    positions = (positions + rng.normal(scale=0.02, size=positions.shape)) @ rotation.T + rng.normal(scale=0.3, size=3)
    atoms = [(row[0], [round(float(x), 6) for x in r]) for row, r in zip(rows, positions, strict=True)]
    options: dict[str, Any] = {"grid_level": int(rng.integers(2)), "density_fit": bool(rng.integers(2))}
    for name in rng.permutation(list(ENVIRONMENTS))[: one_of([1, 1, 1, 2])]:
        options |= one_of(ENVIRONMENTS[name])
    method = one_of(["auto", "auto", "UKS", "ROKS"] if spin else ["auto", "auto", "auto", "UKS"])
    return Case(
        atoms,
        charge,
        spin,
        basis=one_of(HEAVY_BASES if kind == "heavy" else BASES),
        xc=one_of(FUNCTIONALS[one_of(list(FUNCTIONALS))]),
        property=one_of(list(properties)),
        cartesian=one_of([False, False, True]),
        method=method,
        options=options,
        seed=int(rng.integers(2**31)),
    )
