"""The record of a fit: what was evaluated, in order, and the densities that the next evaluation begins with.

A fit asks the same questions in the same order each time, so one that goes on takes its answers from here as long as
there are any; they and the densities are numbers to the last bit, and so is what follows.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError
from dftfd.runtime.hdf5 import MAGIC
from dftfd.runtime.records import Record, recorded

RECORD, PARTS = "a fit", ("errors", "jacobian", "held_out", "residuals", "by_terms")


@contextmanager
def recorded_fit(path, problem, identity: dict[str, Any]) -> Iterator["FitRecord | None"]:
    """The FitRecord of a FitProblem, None without a path; CheckpointError for the record of another fit."""
    if path is None:
        yield None
        return

    def refuse_earlier(content):
        if content.startswith(MAGIC):  # which lacks the geometries, so that it fits to other molecules, too
            raise CheckpointError(
                f"{path} is the record of a fit by an earlier version, which does not say what molecules it is about; "
                "take another name."
            )

    with recorded(path, RECORD, identity, earlier=refuse_earlier) as record:
        yield FitRecord(record, problem)


class FitRecord:
    """Evaluations in a record, of `problem`."""

    def __init__(self, record: Record, problem):
        self._record, self._problem, self._asked = record, problem, 0
        self.fixed: dict[str, np.ndarray] = {}
        self._points: list[np.ndarray] = []
        self._answers: list[tuple | None] = []
        self._densities: dict[str, np.ndarray] = {}
        for number, piece in enumerate(record.pieces):
            try:
                self._take(piece)
            except (KeyError, TypeError, ValueError) as error:
                raise record.damaged(number, error) from error

    def _take(self, piece):
        if "fixed" in piece:
            self.fixed = _unpacked_densities(piece["fixed"])
        elif "densities" in piece:
            self._densities = _unpacked_densities(piece["densities"])
        else:
            point = _unpacked(piece["point"])
            self._points.append(point)
            if piece["answer"] is None:
                self._answers.append(None)
                return
            rows = {"jacobian": (-1, len(point)), "by_terms": (-1, len(point))}
            parts = {name: _unpacked(piece["answer"][name]) for name in PARTS}
            self._answers.append(tuple(part.reshape(rows.get(name, -1)) for name, part in parts.items()))

    def keep_fixed(self, densities: dict[str, np.ndarray]) -> None:
        """Keeps density matrices of molecules that the fit does not change."""
        self.fixed = densities
        self._write()

    def tried(self, point, batch, validated):
        """What `problem.tried` gives, from the record as far as it reaches."""
        k, self._asked = self._asked, self._asked + 1
        if k < len(self._points):
            if not np.array_equal(self._points[k], point):
                raise CheckpointError(
                    f"{self._record.path} does not lead where this fit goes: of another optimiser, or of terms whose "
                    "code was another; name another file."
                )
            if k == 0:
                self._require_terms(point)
            if k == len(self._points) - 1:
                self._problem.densities |= self._densities
                self._problem.begun = True
            return self._answers[k]
        answer = self._problem.tried(point, batch, validated)
        self._points.append(np.array(point))
        self._answers.append(answer)
        self._densities = {name: self._problem.densities[name] for name, _ in self._problem.ordered_scfs()}
        self._write()
        return answer

    def _require_terms(self, point):
        """CheckpointError unless the terms give at the start what they gave; their code is told by that alone."""
        if not self._problem.terms or self._answers[0] is None:
            return
        now = self._problem.of_terms(point)
        for here, there in zip(now, self._answers[0][3:], strict=True):
            if here.shape != there.shape or not np.allclose(here, there, rtol=1e-6, atol=1e-9):
                raise CheckpointError(
                    f"{self._record.path}: the terms of the fit give other residuals at the start now; with the same "
                    "terms it goes on, else name another file."
                )

    def _write(self):
        pieces: list[dict] = [{"fixed": _packed_densities(self.fixed)}] if self.fixed else []
        for point, answer in zip(self._points, self._answers, strict=True):
            parts = None if answer is None else {n: _packed(part) for n, part in zip(PARTS, answer, strict=True)}
            pieces.append({"point": _packed(point), "answer": parts})
        self._record.replace([*pieces, {"densities": _packed_densities(self._densities)}])


def _packed(array) -> str:
    """Numbers to the last bit."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _unpacked(text) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(float)


def _packed_densities(densities) -> dict[str, list]:
    return {name: [*np.shape(P), _packed(P)] for name, P in densities.items()}


def _unpacked_densities(packed) -> dict[str, np.ndarray]:
    return {str(name): _unpacked(text).reshape(shape) for name, (*shape, text) in packed.items()}
