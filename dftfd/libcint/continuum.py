"""A molecule's cavity in a polarisable continuum, as PySCF discretises it, and the solvents that PySCF knows.

The surface is that of spheres around the nuclei, with smoothly switched points that carry Gaussian charges:
A. W. Lange, J. M. Herbert, J. Chem. Phys. 133, 244111 (2010). doi:10.1063/1.3511297
Solvents, and the terms of a cavity in them: A. V. Marenich, C. J. Cramer, D. G. Truhlar, J. Phys. Chem. B 113, 6378
(2009). doi:10.1021/jp810292n
"""

from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from pyscf import df, gto, lib
from scipy.special import erf

from dftfd.errors import MissingDependencyError, NumericalError
from dftfd.libcint.derivatives import atom_sums
from dftfd.libcint.mole import mole_of_nuclei, quiet, to_pyscf

METHODS = {"cpcm": "C-PCM", "cosmo": "COSMO", "iefpcm": "IEF-PCM", "ssvpe": "SS(V)PE", "smd": "IEF-PCM"}
"""What PySCF calls the equations of a model."""

LEBEDEV = {"smd": (41, 590)}
"""Order and number of points on a sphere, where they are not the usual ones."""

USUAL_LEBEDEV = (29, 302)
SCALE = 1.2
"""Radii of spheres over Bondi's, but in SMD, which has its own."""

MATRICES, MATRICES_OF_GRADIENT = 16, 34
"""Matrices (point, point) that PySCF holds while it makes those of a cavity, and their derivatives; rounded up."""

BLOCK_BYTES = 64 * 2**20


_BASICITY, _HALOGENS = 3, 7
"""Columns of PySCF's table of solvents."""


class SolventData(NamedTuple):
    """refraction: its index.   alpha, beta: Abraham's acidity and basicity.   epsilon: dielectric constant."""

    refraction: float
    alpha: float
    beta: float
    epsilon: float


_MISPRINTED = {"1,2-ethanediol": {_HALOGENS: 0.0}, "pentanal": {_BASICITY: 0.45}}
"""Where PySCF's table has not what the database and NWChem have: it gives 1,2-ethanediol the halogens of the solvents
around it."""


def known_solvents() -> dict[str, SolventData]:
    """The solvents of the Minnesota Solvent Descriptor Database by their names there."""
    rows = {name: _descriptors(name) for name in _solvent_modules().smd.solvent_db if name}
    return {name: SolventData(row[0], row[2], row[_BASICITY], row[5]) for name, row in rows.items()}


def _descriptors(solvent: str) -> list[float]:
    """Index of refraction at two temperatures, acidity, basicity, surface tension, dielectric constant, shares of
    aromatic carbon and of halogens."""
    row = list(_solvent_modules().smd.solvent_db[solvent])
    for column, value in _MISPRINTED.get(solvent, {}).items():
        row[column] = value
    return row


def _solvent_modules() -> Any:
    try:
        from pyscf.solvent import pcm, smd
        from pyscf.solvent.grad import pcm as pcm_gradient
    except ImportError as error:
        raise MissingDependencyError(
            f"PySCF's solvent models cannot be loaded ({error}); install a newer PySCF: pip install -U pyscf."
        ) from error
    return SimpleNamespace(pcm=pcm, smd=smd, gradient=pcm_gradient)


def cavity_dispersion(molecule, solvent: str) -> tuple[float, np.ndarray]:
    """Energy of cavity, dispersion and solvent structure of SMD [hartree] and its gradient (atom, 3) [hartree/bohr]."""
    smd = _solvent_modules().smd
    if smd.libsolvent is None:
        raise MissingDependencyError(
            "SMD needs a part of PySCF that this build lacks (libsolvent, cmake -DENABLE_SMD=ON); the wheels on "
            "PyPI have it. The other solvent models do not need it."
        )
    descriptors = _descriptors(solvent)
    given = SimpleNamespace(mol=mole_of_nuclei(molecule), solvent=solvent, solvent_descriptors=descriptors)
    energy, of_real = smd.get_cds_legacy(given)
    gradient = np.zeros((molecule.n_atoms, 3))
    gradient[~np.array(molecule.ghost)] = of_real
    if not (np.isfinite(energy) and np.isfinite(gradient).all()):
        raise NumericalError(f"the cavity and dispersion energy of {molecule.formula} in {solvent} is NaN or Inf.")
    return float(energy), gradient


class Cavity:
    """Points on the spheres around a molecule's real atoms, and the charges (point,) that potentials draw there.

    model: a name of METHODS.   alpha: the solvent's acidity, on which radii of SMD depend.
    """

    def __init__(self, molecule, model: str, alpha: float = 0.0):
        self._molecule, self._model = molecule, model
        self._modules = _solvent_modules()
        self._nuclei = mole_of_nuclei(molecule)
        self._order, per_sphere = LEBEDEV.get(model, USUAL_LEBEDEV)
        pcm, smd = self._modules.pcm, self._modules.smd
        self._radii = smd.smd_radii(alpha) if model == "smd" else SCALE * pcm.modified_Bondi
        with quiet():
            surface = pcm.gen_surface(self._nuclei, ng=per_sphere, rad=self._radii)
        self.points, self._widths = surface["grid_coords"], surface["charge_exp"]
        self._of_atom = surface["gslice_by_atom"]
        self._atoms = np.flatnonzero(~np.array(molecule.ghost))
        self._kept: list | None = None
        self._charges: dict[float, np.ndarray] = {}

    # ------------------------------------------------------------------------------------------------------- charges

    def charges_of_potentials(self, epsilon: float) -> np.ndarray:
        """Q (point, point), symmetric: 1/2 v Q v is the energy of potentials v (point,) at a dielectric constant."""
        if epsilon not in self._charges:
            parts = self._equations(epsilon)._intermediates
            Q = np.linalg.solve(parts["K"], parts["R"])
            if not np.isfinite(Q).all():
                raise NumericalError("the solvent's charges are NaN or Inf; look for nuclei that coincide.")
            self._charges[epsilon] = 0.5 * (Q + Q.T)
        return self._charges[epsilon]

    def _equations(self, epsilon) -> Any:
        """PySCF's model, with the matrices of K q = R v."""
        model = self._modules.pcm.PCM(self._nuclei)
        model.method, model.eps = METHODS[self._model], epsilon
        model.radii_table, model.lebedev_order = self._radii, self._order
        with quiet():
            model.build()
        return model

    # ---------------------------------------------------------------------------------------------------- potentials

    @cached_property
    def of_nuclei(self) -> np.ndarray:
        """Potential (point,) [hartree/e] of the nuclei, less the electrons of core potentials."""
        r = np.linalg.norm(self._from_nuclei, axis=2)
        return (erf(self._widths[:, None] * r) / r) @ self._Z

    @property
    def _Z(self):
        return self._molecule.nuclear_charges[self._atoms]

    @property
    def _from_nuclei(self):
        """Points less the positions of real atoms, (point, atom, 3)."""
        return self.points[:, None] - self._molecule.coordinates[self._atoms]

    def of_density(self, P) -> np.ndarray:
        """sum_mn (k|mn) P_mn (matrix, point) of symmetric matrices P (matrix, ao, ao)."""
        rows, columns = np.tril_indices(P.shape[-1])
        folded = (P * (2.0 - np.eye(P.shape[-1])))[:, rows, columns]
        found = np.empty((len(P), len(self.points)))
        for part, integrals in self._blocks():
            found[:, part] = folded @ integrals
        return found

    def matrices(self, q) -> np.ndarray:
        """sum_k (k|mn) q_k (set, ao, ao) of charges q (set, point)."""
        packed = sum(q[:, part] @ integrals.T for part, integrals in self._blocks())
        return lib.unpack_tril(np.ascontiguousarray(packed))

    @property
    def bytes_of_integrals(self) -> float:
        """What all of (k|mn) take."""
        n = self._molecule.n_ao
        return 8.0 * n * (n + 1) / 2 * len(self.points)

    def keep_integrals(self) -> None:
        """From now on, (k|mn) are computed once."""
        self._kept = self._kept or []

    def _blocks(self):
        """Pairs of a range of points and (mn|k) of them, (ao (ao + 1) / 2, point)."""
        if self._kept:
            return self._kept
        made = ((part, self._integrals("int3c2e", part, "s2ij")) for part in self._ranges(8))
        if self._kept is None:
            return made
        self._kept[:] = made
        return self._kept

    def _ranges(self, bytes_of_pair):
        width = max(16, int(BLOCK_BYTES / (bytes_of_pair * self._molecule.n_ao**2)))
        return [slice(first, first + width) for first in range(0, len(self.points), width)]

    def _integrals(self, name, part, symmetry):
        mole = to_pyscf(self._molecule)
        charges = gto.fakemol_for_charges(self.points[part], expnt=self._widths[part] ** 2)
        charges.cart = mole.cart
        with quiet():
            return df.incore.aux_e2(mole, charges, intor=name, aosym=symmetry)

    # ------------------------------------------------------------------------------------------------------ gradient

    def gradient(self, P, epsilon: float) -> np.ndarray:
        """d/dR (atom, 3) [hartree/bohr] of 1/2 v Q v at a symmetric density matrix P (ao, ao)."""
        v = self.of_nuclei - self.of_density(P[None])[0]
        q = self.charges_of_potentials(epsilon) @ v
        model = self._equations(epsilon)
        parts = model._intermediates
        parts |= {"v_grids": v, "q": np.linalg.solve(parts["K"], parts["R"] @ v), "dm": np.zeros(1)}
        gradient = self._of_potentials(P, q)
        with quiet():  # PySCF asks whether its v is that of this density
            gradient[self._atoms] += self._modules.gradient.grad_solver(model, np.zeros(1))
        return gradient

    def _of_potentials(self, P, q):
        """q dv/dR: nuclei, basis functions and points move."""
        d, xi = self._from_nuclei, self._widths[:, None]
        r = np.linalg.norm(d, axis=2)
        slope = (2.0 / np.sqrt(np.pi) * xi * np.exp(-((xi * r) ** 2)) - erf(xi * r) / r) / r
        pull = (q[:, None] * self._Z * slope / r)[:, :, None] * d
        of_points, per_ao = pull.sum(axis=1), np.zeros((3, len(P)))
        for part in self._ranges(24):
            by_electron = np.einsum("xmnk,mn->xmk", self._integrals("int3c2e_ip1", part, "s1"), P, optimize=True)
            per_ao += 2.0 * by_electron @ q[part]
            of_points[part] -= 2.0 * q[part, None] * by_electron.sum(axis=1).T
        gradient = atom_sums(self._molecule, per_ao)
        gradient[self._atoms] -= pull.sum(axis=0)
        for atom, (first, last) in zip(self._atoms, self._of_atom, strict=True):
            gradient[atom] += of_points[first:last].sum(axis=0)
        return gradient
