"""The terms of the energy, and the names under which results hold their energies."""

from dftfd.runtime.chosen_terms import energy_term
from dftfd.terms.coulomb_exchange import CoulombExchangeEnergy
from dftfd.terms.derived_term import DerivedTerm, inverse_square_root
from dftfd.terms.dispersion import DispersionEnergy
from dftfd.terms.double_integral import DoubleIntegralEnergy
from dftfd.terms.external import ExternalEnergy
from dftfd.terms.grid_functional_energy import GridFunctionalEnergy
from dftfd.terms.local_hybrid import LocalHybridEnergy
from dftfd.terms.one_electron import NuclearEnergy, OneElectronEnergy
from dftfd.terms.semilocal import SemilocalEnergy
from dftfd.terms.solvent import SolventEnergy
from dftfd.terms.term import Contribution, Term

__all__ = [
    "COMPONENTS",
    "Contribution",
    "CoulombExchangeEnergy",
    "DerivedTerm",
    "DispersionEnergy",
    "DoubleIntegralEnergy",
    "ExternalEnergy",
    "GridFunctionalEnergy",
    "LocalHybridEnergy",
    "NuclearEnergy",
    "OneElectronEnergy",
    "SemilocalEnergy",
    "SolventEnergy",
    "Term",
    "energy_term",
    "inverse_square_root",
]

KINDS = (
    NuclearEnergy,
    OneElectronEnergy,
    CoulombExchangeEnergy,
    SemilocalEnergy,
    DoubleIntegralEnergy,
    GridFunctionalEnergy,
    DispersionEnergy,
    ExternalEnergy,
    SolventEnergy,
)

COMPONENTS = {name: words for kind in KINDS for name, words in kind.components.items()} | {"pt2": "perturbation theory"}
"""Components of the energy in the order in which they are reported, and what tables call them."""
