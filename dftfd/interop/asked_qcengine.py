"""Programs that QCEngine runs as targets of `dftfd audit-code`.

D. G. A. Smith et al., J. Chem. Phys. 155, 204801 (2021). doi:10.1063/5.0059356
"""

from importlib import import_module
from typing import Any

import numpy as np

from dftfd.errors import MissingDependencyError, UnsupportedError
from dftfd.interop.asked import Fixed, Setting, multiplicity, shape_of

DRIVERS = {"energy": "energy", "forces": "gradient", "hessian": "hessian", "dipole": "properties"}


class QCEngineTarget(Fixed):
    """A program, method and basis set by their names in QCEngine.

    bonds: (atom, atom, order), which force fields need.   keywords: of the program.
    """

    offers = frozenset(DRIVERS)
    conditions = frozenset({"spin"})

    def __init__(self, program: str, method: str = "hf", basis: str | None = "6-31g", bonds: Any = (), **keywords: Any):
        try:
            self._engine = import_module("qcengine")
        except ImportError as error:
            raise MissingDependencyError("programs of QCEngine need it: pip install qcengine.") from error
        self.program, self.method, self.basis, self.bonds, self.keywords = program, method, basis, bonds, keywords
        self.name = f"QCEngine {self._engine.__version__}, {program} {method}" + (f"/{basis}" if basis else "")

    def in_basis(self, basis: str) -> "QCEngineTarget":
        return QCEngineTarget(self.program, self.method, basis, self.bonds, **self.keywords)

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity by its driver; the frame of the molecule stays as it is."""
        ghosts = [symbol.startswith("ghost-") for symbol in setting.symbols]
        molecule = {
            "symbols": [symbol.removeprefix("ghost-") for symbol in setting.symbols],
            "geometry": np.ravel(setting.positions).tolist(),
            "real": [not ghost for ghost in ghosts],
            "molecular_charge": setting.charge,
            "molecular_multiplicity": multiplicity(setting),
            "fix_com": True,
            "fix_orientation": True,
        } | ({"connectivity": list(self.bonds)} if self.bonds else {})
        asked = {
            "molecule": molecule,
            "driver": DRIVERS[quantity],
            "model": {"method": self.method, "basis": self.basis},
            "keywords": self.keywords,
        }
        try:
            answer = self._engine.compute(asked, self.program, raise_error=True, return_dict=True)
        except self._engine.exceptions.InputError as error:  # such as a driver that a program lacks
            raise UnsupportedError(f"not taken by {self.program}: {error}") from error
        if quantity == "dipole":
            if (found := answer["properties"].get("scf_dipole_moment")) is None:
                raise UnsupportedError("no dipole in what the program returned.")
            return found
        found = np.reshape(answer["return_result"], shape_of(quantity, setting) or ())
        return -found if quantity == "forces" else found
