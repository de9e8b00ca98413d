r"""The energy of a molecule in a solvent that is a polarisable continuum outside of a cavity.

    E = 1/2 v Q v,   v_k = sum_A Z_A g_k(R_A) - tr(P g_k),   F_mn = -(mn|g_k) (Q v)_k

v_k is the molecule's electrostatic potential on Gaussian charges g_k on the cavity, Q v the charges that it draws
there: E is quadratic in P, its second derivative by P constant. SMD adds an energy of cavity, dispersion and structure
of the solvent, which depends on the nuclei alone.

J. Tomasi, B. Mennucci, R. Cammi, Chem. Rev. 105, 2999 (2005). doi:10.1021/cr9904009
Response of a solvent to fast changes: R. Cammi, B. Mennucci, Int. J. Quantum Chem. 75, 767 (1999).
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError, ResourceError, closest_names, shown
from dftfd.libcint.continuum import MATRICES, MATRICES_OF_GRADIENT, Cavity, cavity_dispersion, known_solvents
from dftfd.runtime.memory import Need, available_memory, in_bytes
from dftfd.terms.term import Contribution, Term
from dftfd.terms.traced import TracedEnergy, linear_map

USUAL_MODEL: str = "cpcm"
"""Without solvent_model=."""

USUAL_OPTICAL = 1.78
"""The optical dielectric constant where only the static one is given, water's."""

SHARE = 4
"""One part in so many of the memory that is left may hold integrals."""

ALSO_CALLED = {
    "acetic-acid": "acetic acid",
    "ccl4": "carbon tetrachloride",
    "cs2": "carbon disulfide",
    "dcm": "dichloromethane",
    "diethyl ether": "diethylether",
    "dioxane": "1,4-dioxane",
    "dmf": "n,n-dimethylformamide",
    "dmso": "dimethylsulfoxide",
    "ethyl acetate": "ethylethanoate",
    "formic acid": "formicacid",
    "h2o": "water",
    "heptane": "n-heptane",
    "hexane": "n-hexane",
    "isopropanol": "2-propanol",
    "octanol": "1-octanol",
    "pentane": "n-pentane",
    "thf": "tetrahydrofuran",
}


@dataclass(frozen=True)
class Solvent:
    """model: a name of `libcint.continuum.METHODS`.   epsilon, optical: static and optical dielectric constant.

    name: in the Minnesota database, empty where the constants were given.   alpha: the solvent's acidity.
    """

    model: str
    epsilon: float
    optical: float
    name: str = ""
    alpha: float = 0.0

    def __str__(self):
        constants = f"dielectric constant {self.epsilon:g}, optical {self.optical:g}"
        return f"{self.name or 'continuum'}, {self.model}, {constants}"


def solvent_for(given, model: str) -> Solvent | None:
    """The solvent of run_scf's options, which are checked by themselves; InputError for an unknown name.

    given: None, a name, a dielectric constant, or the static and the optical one.
    """
    if given is None:
        if model != USUAL_MODEL:
            raise InputError(f"solvent_model={model!r} needs a solvent, as in solvent='water'.")
        return None
    if not isinstance(given, str):
        epsilon, optical = given if isinstance(given, tuple) else (given, min(given, USUAL_OPTICAL))
        if model == "smd":
            raise InputError(
                f"solvent_model='smd' needs the name of a solvent, whose surface tension and acidity it uses; found "
                f"solvent={shown(given)}. Name one, such as 'water', or take 'cpcm', 'iefpcm', 'cosmo', 'ssvpe'."
            )
        return Solvent(model, epsilon, optical)
    table = {name.lower(): (name, row) for name, row in known_solvents().items()}
    wanted = given.strip().lower()
    if (key := ALSO_CALLED.get(wanted, wanted)) not in table:
        close = ", ".join(closest_names(key, [*table, *ALSO_CALLED]))
        raise InputError(
            f"unknown solvent {shown(given)}; the closest of {len(table)} known names are {close}. A dielectric "
            "constant describes one, too: solvent=78.4, or (78.4, 1.78) with the optical one."
        )
    name, row = table[key]
    return Solvent(model, row.epsilon, row.refraction**2, name, row.alpha)


class SolventEnergy(Term):
    """The energy in a Solvent.   to_fast: what is asked for its response changes faster than molecules turn."""

    components = {"solvent": "solvent, electrostatic", "solvent_cds": "solvent, cavity (CDS)"}
    stage = "solvent derivatives"

    def __init__(self, molecule, solvent: Solvent, to_fast: bool = False):
        self._molecule, self._solvent, self._to_fast = molecule, solvent, to_fast

    @cached_property
    def _cavity(self):
        return Cavity(self._molecule, self._solvent.model, self._solvent.alpha)

    @cached_property
    def _cds(self):
        if self._solvent.model != "smd":
            return 0.0, np.zeros((self._molecule.n_atoms, 3))
        return cavity_dispersion(self._molecule, self._solvent.name)

    def evaluate(self, P, C_occ=None):
        v = self._cavity.of_nuclei - self._cavity.of_density(P.sum(axis=0)[None])[0]
        q = self._cavity.charges_of_potentials(self._solvent.epsilon) @ v
        energies = {"solvent": 0.5 * float(q @ v), "solvent_cds": self._cds[0]}
        return Contribution(energies, {"solvent": -self._cavity.matrices(q[None])})

    def response(self, P, C, triplet=False):
        epsilon = self._solvent.optical if self._to_fast else self._solvent.epsilon

        def change(dC, imaginary=0.0):
            if triplet or imaginary == 1.0:
                return [0.0] * len(C)
            half = sum(dC_s.transpose(0, 2, 1) @ C_s for C_s, dC_s in zip(C, dC, strict=True))
            v = self._cavity.of_density(half + half.transpose(0, 2, 1))
            dF = self._cavity.matrices((1.0 - imaginary) * v @ self._cavity.charges_of_potentials(epsilon))
            return [C_s @ dF for C_s in C]

        return change

    def without_slow_response(self):
        other = copy(self)
        other._to_fast = True
        return other

    def traced(self, molecule, in_memory):
        if in_memory:
            return super().traced(molecule, in_memory)
        return _SolventOnHost(self._cavity, self._cavity.charges_of_potentials(self._solvent.epsilon), self._cds[0])

    def gradient(self, P, C_occ, grid_response, progress):
        needed = 8.0 * MATRICES_OF_GRADIENT * len(self._cavity.points) ** 2
        if needed > available_memory():
            raise ResourceError(
                f"forces in a solvent need {in_bytes(needed)} for {len(self._cavity.points)} points on the cavity, "
                f"{in_bytes(available_memory())} are free; take a model with fewer points than smd, or more memory."
            )
        return self._cavity.gradient(P.sum(axis=0), self._solvent.epsilon) + self._cds[1]

    def memory(self):
        fixed = 8.0 * MATRICES * len(self._cavity.points) ** 2
        return Need({"the solvent's cavity": fixed}, {"integrals on the cavity": self._cavity.bytes_of_integrals})

    def keep_within(self, room):
        if self._cavity.bytes_of_integrals > room / SHARE:
            return 0.0
        self._cavity.keep_integrals()
        return self._cavity.bytes_of_integrals

    def prepare(self, progress):
        with progress.stage("solvent"):
            self._cavity.charges_of_potentials(self._solvent.epsilon)


class _SolventOnHost(TracedEnergy):
    """1/2 v Q v with potentials by integrals of the host, and the constant energy of SMD's cavity."""

    def __init__(self, cavity: Cavity, Q: np.ndarray, cds: float):
        self._cavity, self._Q, self._cds = cavity, Q, cds

    def names(self, functional):
        return "solvent", "solvent_cds"

    def energy(self, name, P, numbers):
        if name == "solvent_cds":
            return jnp.asarray(self._cds)
        total = P.sum(axis=0)
        of_density = lambda P: self._cavity.of_density(P[None])[0]
        matrix = lambda v: self._cavity.matrices(v[None])[0]
        v = self._cavity.of_nuclei - linear_map(of_density, matrix, (len(self._Q),), 0.5 * (total + total.T))
        return 0.5 * v @ (jnp.asarray(self._Q) @ v)
