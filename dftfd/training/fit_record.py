"""The record of a fit: what was evaluated, in order, and the densities that the next evaluation begins with.

A fit asks the same questions in the same order each time, so one that goes on takes its answers from here as long as
there are any; they and the densities are numbers to the last bit, and so is what follows.
"""

import hashlib
import json
import os

import numpy as np

from dftfd.errors import CheckpointError
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.runtime.files import check_writable
from dftfd.runtime.hdf5 import read_tree, write_tree

PARTS = ("errors", "jacobian", "held_out", "residuals", "by_terms")


def identity_of(functional, *what) -> str:
    """Text that tells a fit from others: the functional's formula and numbers, and whatever else decides it."""
    described = json.dumps([program_fingerprint(functional), *what], sort_keys=True, default=repr)
    return hashlib.sha256(described.encode()).hexdigest()


class FitRecord:
    """A file of evaluations; CheckpointError where it holds those of another fit."""

    def __init__(self, path, identity: str):
        self._path, self._identity = path, identity
        self._points: list[np.ndarray] = []
        self._answers: list[tuple | None] = []
        self._densities, self._asked = np.zeros(0), 0
        self.fixed: dict[str, np.ndarray] = {}
        if os.path.lexists(path):
            self._read()
        check_writable(path)

    def _read(self):
        tree = read_tree(self._path, "the record of a fit")
        if tree.get("identity") != self._identity:
            raise CheckpointError(
                f"{self._path} is the record of another fit: functional, data or options differ; name another file."
            )
        self._points = list(tree["points"])
        rows = [tuple(tree[name][k] for name in PARTS) for k in range(len(self._points))]
        self._answers = [None if failed else row for failed, row in zip(tree["failed"], rows, strict=True)]
        self._densities = np.asarray(tree["densities"])
        self.fixed = dict(tree["fixed"])

    def keep_fixed(self, densities: dict[str, np.ndarray]) -> None:
        """Keeps density matrices of molecules that the fit does not change."""
        self.fixed = densities
        self._write()

    def tried(self, problem, point, batch, validated):
        """What `problem.tried` gives, from the record as far as it reaches."""
        k, self._asked = self._asked, self._asked + 1
        if k < len(self._points):
            if not np.array_equal(self._points[k], point):
                raise CheckpointError(
                    f"{self._path} does not lead where this fit goes: another version wrote it; name another file."
                )
            if k == len(self._points) - 1:
                self._give_back(problem)
            return self._answers[k]
        answer = problem.tried(point, batch, validated)
        self._points.append(np.array(point))
        self._answers.append(answer)
        flat = [np.zeros(0), *(problem.densities[name].ravel() for name, _ in problem.ordered_scfs())]
        self._densities = np.concatenate(flat)
        self._write()
        return answer

    def _give_back(self, problem):
        """Puts the densities of the last evaluation where the next one begins."""
        start, problem.begun = 0, True
        for name, scf in problem.ordered_scfs():
            shape = scf.n_spin, scf.molecule.n_ao, scf.molecule.n_ao
            size = int(np.prod(shape))
            problem.densities[name] = self._densities[start : start + size].reshape(shape)
            start += size

    def _write(self):
        tree = {"identity": self._identity, "densities": self._densities, "fixed": self.fixed}
        tree["failed"] = np.array([answer is None for answer in self._answers])
        nothing = [np.zeros_like(part) for part in self._answers[0] or ()] if self._answers else []
        rows = [nothing if answer is None else answer for answer in self._answers]
        tree |= {name: np.array([row[k] for row in rows]) for k, name in enumerate(PARTS)}
        tree["points"] = np.array(self._points)
        write_tree(self._path, tree)
