"""What `import dftfd` offers: the names of dftfd/__init__.py, which are loaded at first use, for type checkers."""

from dftfd import autofd as autofd
from dftfd import errors as errors
from dftfd.batch import run_batch as run_batch
from dftfd.benchmarks import benchmark as benchmark
from dftfd.errors import DftfdError as DftfdError
from dftfd.errors import InputError as InputError
from dftfd.functionals.base import Functional as Functional
from dftfd.functionals.base import exact_exchange as exact_exchange
from dftfd.functionals.base import long_range_exchange as long_range_exchange
from dftfd.functionals.registry import functional as functional
from dftfd.functionals.registry import get_functional as get_functional
from dftfd.functionals.registry import list_functionals as list_functionals
from dftfd.functionals.registry import guest as guest
from dftfd.functionals.registry import potential as potential
from dftfd.functionals.registry import register as register
from dftfd.grids.molecular import Grid as Grid
from dftfd.grids.molecular import molecular_grid as molecular_grid
from dftfd.interactive.workbench import workbench as workbench
from dftfd.model.energy_in_jax import energy as energy
from dftfd.model.forces import nuclear_forces as nuclear_forces
from dftfd.response.excitations import load_excitations as load_excitations
from dftfd.results.result import SCFResult as SCFResult
from dftfd.results.result_file import load_result as load_result
from dftfd.results.vibrations import load_vibrations as load_vibrations
from dftfd.system.molecule import Molecule as Molecule
from dftfd.system.molecule import molecule as molecule
from dftfd.tasks.counterpoise import interaction_energy as interaction_energy
from dftfd.tasks.numerical_forces import numerical_forces as numerical_forces
from dftfd.tasks.optimization import optimize as optimize
from dftfd.tasks.reaction_path import reaction_path as reaction_path
from dftfd.tasks.run import run_scf as run_scf
from dftfd.tasks.scanning import load_scan as load_scan
from dftfd.tasks.scanning import scan as scan
from dftfd.training import losses as losses
from dftfd.training.fitting import fit as fit
from dftfd.training.saved import load_functional as load_functional
from dftfd.training.self_consistent import differentiable_scf as differentiable_scf
from dftfd.translate.exporting import export as export
from dftfd.verify.audit import audit as audit
from dftfd.verify.check import check as check
from dftfd.verify.proofs import load_proof as load_proof
from dftfd.verify.proofs import prove as prove
from dftfd.verify.report_card import report_card as report_card
from dftfd.xc.density import density_function as density_function

__version__: str
