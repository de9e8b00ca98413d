"""The axes in dftfd.runtime.array_types are those of the arrays that a calculation hands from package to package."""

import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import dftfd
from dftfd.model.kohn_sham import FockEvaluation, KohnSham
from dftfd.runtime.array_types import ChangeOfOrbitals, DensityMatrix, OccupiedOrbitals, PartOfFock
from dftfd.runtime.progress import Progress
from dftfd.scf.problem import Problem, State
from dftfd.terms.semilocal import SemilocalEnergy
from dftfd.terms.term import Term
from dftfd.xc.kernel import Kernel, XCKernel
from dftfd.xc.matrix import MatrixBuilder, XCBuilder


def wrong(value, annotation, lengths: dict[str, int]) -> list[str]:
    """Arrays in a value whose shapes are not those of its type.   lengths: of axes by name; new ones are added."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        alternatives = [axes.split() for axes in annotation.__metadata__]
        found = next((axes for axes in alternatives if _fits(value.shape, axes, lengths)), None)
        if found is None:
            return [f"{value.shape} is not {' or '.join(annotation.__metadata__)} with {lengths}"]
        lengths.update((name, n) for name, n in zip(found, value.shape, strict=True) if not name.isdigit())
        return []
    if origin in (Union, types.UnionType):
        arrays = [a for a in inner if get_origin(a) is not None]
        return [] if value is None or isinstance(value, float) or not arrays else wrong(value, arrays[0], lengths)
    if origin is Mapping:
        return [x for one in value.values() for x in wrong(one, inner[1], lengths)]
    if origin is Sequence:  # per spin: axes that are named in it alone may differ
        return [x for one in value for x in wrong(one, inner[0], dict(lengths))]
    if origin is tuple and Ellipsis not in inner:
        return [x for one, kind in zip(value, inner, strict=True) for x in wrong(one, kind, lengths)]
    if dataclasses.is_dataclass(annotation) or hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        return [x for name, kind in hints.items() for x in wrong(getattr(value, name), kind, lengths)]
    return []


def _fits(shape, axes, lengths) -> bool:
    known = {name: int(name) for name in axes if name.isdigit()} | lengths
    return len(shape) == len(axes) and all(known.get(name, n) == n for name, n in zip(axes, shape, strict=True))


def called(declared, code, lengths, *arguments):
    """code(*arguments), after its arguments and its result were compared with the types of `declared`."""
    hints, lengths = get_type_hints(declared, include_extras=True), dict(lengths)
    names = [name for name in inspect.signature(declared).parameters if name != "self"]
    result = code(*arguments)
    assert any("Annotated" in repr(kind) or dataclasses.is_dataclass(kind) for kind in hints.values())
    for name, value in [*zip(names, arguments, strict=False), ("return", result)]:
        assert wrong(value, hints.get(name), lengths) == [], (declared.__qualname__, name)
    return result


@pytest.fixture(scope="module")
def lithium_hydride():
    """(ingredients, P, C_occ, rows of orbitals, lengths) of a triplet, whose spins have three and one orbital."""
    molecule = dftfd.molecule("Li 0 0 0; H 0 0 1.6", basis="sto-3g", spin=2)
    result = dftfd.run_scf(molecule, "gga_x_pbe", grid_level=0, max_cycles=1, density_fit=False)
    C_occ = [C[:, n > 0] for C, n in zip(result.mo_coeff, result.mo_occ, strict=True)]
    assert [C.shape for C in C_occ] == [(6, 3), (6, 1)]
    P = np.stack([C @ C.T for C in C_occ])
    lengths = {"spin": 2, "ao": 6, "mo": 6, "atom": 2}
    return result.calculation.build(Progress()), P, C_occ, [C.T for C in C_occ], lengths


def test_terms_take_and_give_what_their_types_say(lithium_hydride):
    """Every method of every term of the energy, and the sum of the terms."""
    ingredients, P, C_occ, rows, lengths = lithium_hydride
    dC = [np.ones((5, *C.shape)) for C in rows]
    for kind, term in [(KohnSham, ingredients.energy), *((Term, term) for term in ingredients.energy.terms)]:
        called(kind.evaluate, term.evaluate, lengths, P, C_occ)
        called(kind.gradient, term.gradient, lengths, P, C_occ, True, Progress())
        name = "orbital_response" if kind is KohnSham else "response"
        change = called(getattr(kind, name), getattr(term, name), lengths, P, rows)
        found = called(ChangeOfOrbitals.__call__, change, lengths, dC)
        assert all(isinstance(x, float) or x.shape == y.shape for x, y in zip(found, dC, strict=True))
        changes = called(kind.incremental_build, term.incremental_build, lengths, P, C_occ)(P, C_occ)
        assert wrong(changes, Mapping[str, PartOfFock], dict(lengths)) == []


def test_kernels_and_builders_take_and_give_what_their_types_say(lithium_hydride):
    ingredients, P, C_occ, _, lengths = lithium_hydride
    builder = ingredients.energy.of_kind(SemilocalEnergy).builder
    lengths = lengths | {"channel": 4, "point": sum(len(block.weights) for block in builder.store.blocks)}
    called(XCBuilder.build, builder.build, lengths, P, C_occ)
    density = called(MatrixBuilder.density, builder.density, lengths, P, C_occ)
    given = *builder.grid, density
    for declared in (Kernel, XCKernel):
        _, potential = called(declared.__call__, builder.kernel, lengths, *given)
        called(declared.slopes, builder.kernel.slopes, lengths, *given)
    called(XCKernel.response, builder.kernel.response, lengths, *given, density)
    called(MatrixBuilder.matrix, builder.matrix, lengths, potential)


def test_states_are_what_their_types_say(lithium_hydride):
    """The SCF's problem, its state after a step, and a starting density, which has no orbitals."""
    ingredients, P, _, _, lengths = lithium_hydride
    problem = ingredients.problem(lambda energies, orbitals: (np.eye(2, 6) + np.eye(1, 6, 2), 0.0))
    assert wrong(problem, Problem, dict(lengths)) == []
    start = called(Problem.start, problem.start, lengths, P)
    state = problem.fill(start.F, 1)
    assert start.C_occ is None and wrong(start.evaluation, FockEvaluation, dict(lengths)) == []
    assert wrong(state, State, dict(lengths)) == []
    assert wrong(state.C_occ, OccupiedOrbitals, dict(lengths)) == []


def test_wrong_shapes_are_found():
    lengths = {"spin": 2, "ao": 6}
    assert wrong(np.zeros((2, 6, 6)), DensityMatrix, dict(lengths)) == []
    for shape in ((6, 6), (1, 6, 6), (2, 6, 5)):
        assert len(wrong(np.zeros(shape), DensityMatrix, dict(lengths))) == 1
    assert wrong(np.zeros((1, 6, 6)), PartOfFock, dict(lengths)) == []
    assert wrong([np.zeros((6, 3)), np.zeros((6, 1))], OccupiedOrbitals, dict(lengths)) == []
    assert wrong([np.zeros((6, 3)), np.zeros((5, 1))], OccupiedOrbitals, dict(lengths)) != []
    assert wrong({"coulomb": np.zeros((2, 6, 5))}, Mapping[str, PartOfFock], dict(lengths)) != []
