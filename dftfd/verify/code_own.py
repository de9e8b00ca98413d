"""dftfd itself as a target of `dftfd audit-code`."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import NotConvergedError, UnsupportedError
from dftfd.interop.asked import QUANTITIES, Setting
from dftfd.model.options import OPTIONS
from dftfd.results.result import SCFResult
from dftfd.results.result_file import load_result
from dftfd.runtime.arguments import refuse_unknown
from dftfd.runtime.version import VERSION
from dftfd.system.molecule import molecule
from dftfd.tasks.run import run_scf


class OwnTarget:
    """dftfd with options of `run_scf`; derivatives are its own, differences those of its energies.

    excited: options of `excitations`, such as tda.   conv_tol is 1e-12 unless it is given.
    """

    offers = frozenset(QUANTITIES)
    conditions = frozenset({"spin", "field", "charges", "state"})

    def __init__(self, xc: Any = "pbe", basis: Any = "6-31g", excited: Any = None, **options: Any):
        refuse_unknown("OwnTarget", options, list(OPTIONS))
        self.xc, self.basis, self.excited = xc, basis, dict(excited or {})
        self.options = {"conv_tol": 1e-12} | options
        self._last: tuple[tuple, SCFResult] | None = None

    @property
    def name(self) -> str:
        said = "".join(f", {key}={value}" for key, value in self.options.items() if key != "conv_tol")
        return f"dftfd {VERSION}, {self.xc}/{self.basis}{said}"

    def in_basis(self, basis: str) -> "OwnTarget":
        return OwnTarget(self.xc, basis, self.excited, **self.options)

    def variants(self, setting: Setting) -> dict[str, "OwnTarget"]:
        finer = {"grid_level": min(self.options.get("grid_level", 3) + 3, 9)}
        found = {"finer grid": OwnTarget(self.xc, self.basis, self.excited, **self.options | finer)}
        if self.options.get("solvent") is not None:
            without = {key: value for key, value in self.options.items() if not key.startswith("solvent")}
            found["without solvent"] = OwnTarget(self.xc, self.basis, self.excited, **without)
        return found

    def _run(self, setting: Setting, options: dict[str, Any], unit: str = "bohr") -> SCFResult:
        positions = setting.in_angstrom if unit == "angstrom" else setting.positions
        atoms = list(zip(setting.symbols, np.asarray(positions).tolist(), strict=True))
        nuclei = molecule(atoms, self.basis, setting.charge, setting.spin, unit=unit, allow_close=True)
        options = self.options | options
        if np.any(setting.field):
            options["electric_field"] = setting.field
        if len(setting.charges):
            options["point_charges"] = np.roll(setting.charges, 1, axis=1)
        result = run_scf(nuclei, self.xc, progress=False, **options)
        if not result.converged:
            raise NotConvergedError(f"the SCF of {setting.name or nuclei.formula} has not converged.")
        return result

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity; calculations start from the density of the one before where that has the same atoms."""
        if setting.state and quantity not in ("energy", "forces"):
            raise UnsupportedError("energies and forces of excited states only.")
        ground = setting.but(state=0).key
        if self._last is None or self._last[0] != ground:
            same = self._last is not None and self._last[0][:3] == ground[:3]
            self._last = ground, self._run(setting, {"guess": self._last[1]} if same and self._last else {})
        return getattr(self, f"_{quantity}")(self._last[1], setting)

    def _excitations(self, result, setting):
        return result.excitations(setting.state + 3, **self.excited)

    def _energy(self, result, setting):
        return result.free_energy + (
            self._excitations(result, setting).energies[setting.state - 1] if setting.state else 0.0
        )

    def _forces(self, result, setting):
        if setting.state:
            return self._excitations(result, setting).forces(setting.state - 1)
        return result.forces()

    def _hessian(self, result, setting):
        return result.hessian()

    def _dipole(self, result, setting):
        return result.dipole

    def _polarizability(self, result, setting):
        return result.polarizability()

    def _dipole_derivatives(self, result, setting):
        return result.vibrations().dipole_derivatives

    def _polarizability_derivatives(self, result, setting):
        return result.vibrations(raman=True).polarizability_derivatives

    def _infrared(self, result, setting):
        return result.vibrations().infrared

    def _charge_forces(self, result, setting):
        return result.point_charge_forces()

    def _restarted(self, result, setting):
        return self._run(setting, {"guess": result}).free_energy

    def _reloaded(self, result, setting):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.h5"
            result.save(path)
            return load_result(path, self.xc if not isinstance(self.xc, str) else None).free_energy

    def _in_angstrom(self, result, setting):
        return self._run(setting, {"guess": result}, "angstrom").free_energy

    def _other_integrals(self, result, setting):
        other = {"guess": result, "density_fit": not result.calculation.density_fit}
        return self._run(setting, other).free_energy
