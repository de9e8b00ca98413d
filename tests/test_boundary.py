"""The boundary: whatever a public function or method is given, it answers with a result or with one of dftfd's errors.

Two hundred kinds of values at each position of each function, the others valid. What would be computed is stopped where
it begins, which counts as an answer. The plain run takes a sample, the slow one another, larger one each day.
"""

import collections
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import io
import itertools
import math
import os
import pathlib
import random
import re
import sys
import threading
import types
import uuid
import warnings
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import Domain, function
from dftfd.batch import Outcome
from dftfd.benchmarks import read_set
from dftfd.errors import DftfdError
from dftfd.functionals.base import Functional
from dftfd.grids.molecular import Grid
from dftfd.interop.pyscf import correlated_density
from dftfd.model.forces import Forces
from dftfd.response.excitations import Excitations
from dftfd.results.result import SCFResult
from dftfd.results.vibrations import Vibrations
from dftfd.tasks.energy_differences import Interaction
from dftfd.tasks.optimization import Optimization
from dftfd.tasks.reaction_path import ReactionPath
from dftfd.tasks.scanning import Scan
from dftfd.training.fitting import Fit
from dftfd.training.inverted import Inversion
from dftfd.training.self_consistent import DifferentiableResult
from tests.order import EVERY_DAY, NIGHT

SAMPLE, SEED = 500, 20261122


class Accepted(Exception):
    """Raised where the calculation would begin."""


# ------------------------------------------------------------------------------------------------------ wrong values


class Hostile(Exception):
    """What hostile objects raise."""


def hostile(*names, base=object):
    """An object whose special methods of these names raise."""

    def fail(self, *arguments):
        raise Hostile("hostile")

    return type("Hostile", (base,), dict.fromkeys(names, fail))()


def lying(**answers):
    """An object whose special methods give these answers."""
    return type("Lying", (), {f"__{name}__": lambda self, *a, value=value: value for name, value in answers.items()})()


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    THREE = 3


class TextOfAnotherKind(str):
    def __eq__(self, other):
        raise Hostile

    def __hash__(self):
        return 7

    def lower(self):
        raise Hostile


class WholeOfAnotherKind(int):
    def __index__(self):
        raise Hostile

    def __ge__(self, other):
        raise Hostile

    __le__ = __lt__ = __gt__ = __ge__


class RealOfAnotherKind(float):
    def __float__(self):
        raise Hostile


class ArrayOfAnotherKind(np.ndarray):
    def __array_finalize__(self, other):
        pass


class Meta(type):
    def __instancecheck__(cls, other):
        raise Hostile

    def __repr__(cls):
        raise Hostile


class OfMeta(metaclass=Meta):
    pass


class Everything:
    """An object that has every attribute and can be called, as mocks are."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Everything()

    def __call__(self, *arguments, **named):
        return Everything()


class Spoofed:
    """An object that says it is of another class."""

    def __init__(self, of):
        self.of = of

    @property
    def __class__(self):
        return self.of


@dataclass
class Record:
    x: int = 1


def in_itself(kind):
    value = kind()
    value.append(value) if kind is list else value.update(a=value)
    return value


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def traced():
    """A value under a trace that has ended."""
    kept = []
    jax.make_jaxpr(lambda x: (kept.append(x), x)[1])(1.0)
    return kept[0]


def array_of_objects(*entries):
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


SPACE = Domain((3,))
VALUES = {
    # --- nothing, truth, numbers
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "0": lambda: 0,
    "1": lambda: 1,
    "2": lambda: 2,
    "-1": lambda: -1,
    "7": lambda: 7,
    "1000": lambda: 1000,
    "2^31": lambda: 2**31,
    "2^63": lambda: 2**63,
    "-2^64": lambda: -(2**64),
    "10^400": lambda: 10**400,
    "10^5000": lambda: 10**5000,
    "0.0": lambda: 0.0,
    "-0.0": lambda: -0.0,
    "0.5": lambda: 0.5,
    "-0.5": lambda: -0.5,
    "1.5": lambda: 1.5,
    "1e-300": lambda: 1e-300,
    "5e-324": lambda: 5e-324,
    "1e300": lambda: 1e300,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "complex": lambda: 1 + 2j,
    "complex nan": lambda: complex(math.nan, 0),
    "Decimal": lambda: decimal.Decimal("1.5"),
    "Decimal sNaN": lambda: decimal.Decimal("sNaN"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "huge Fraction": lambda: fractions.Fraction(10**500, 3),
    "np.bool": lambda: np.True_,
    "np.int64": lambda: np.int64(3),
    "np.uint8": lambda: np.uint8(200),
    "np.float32": lambda: np.float32(0.1),
    "np.float16 inf": lambda: np.float16(np.inf),
    "np.longdouble": lambda: np.longdouble("1e4000"),
    "np.complex128": lambda: np.complex128(1j),
    "np.datetime64": lambda: np.datetime64("2020-01-01"),
    "np.timedelta64": lambda: np.timedelta64(3, "s"),
    "np.str": lambda: np.str_("pbe"),
    "np.bytes": lambda: np.bytes_(b"pbe"),
    "np.void": lambda: np.void(b"abc"),
    "Enum": lambda: Colour.RED,
    "IntEnum": lambda: Number.THREE,
    "bool class": lambda: bool,
    # --- text
    "empty text": lambda: "",
    "blank": lambda: "   ",
    "word": lambda: "nonsense",
    "pbe": lambda: "pbe",
    "PBE": lambda: "PBE",
    "UKS": lambda: "UKS",
    "mix": lambda: "mix",
    "number as text": lambda: "3",
    "nan as text": lambda: "nan",
    "long text": lambda: "x" * 5000,
    "very long text": lambda: "pbe " * 100_000,
    "many lines": lambda: "\n".join(["line"] * 200),
    "line break": lambda: "a\nb",
    "semicolon": lambda: "a;b",
    "carriage return": lambda: "a\rb",
    "NUL": lambda: "a\0b",
    "escape": lambda: "\x1b[31mred\x07",
    "surrogate": lambda: "\ud800",
    "surrogates of bytes": lambda: b"\xff\xfe".decode("utf-8", "surrogateescape"),
    "emoji": lambda: "\U0001f600",
    "right to left": lambda: "\u202etxt",
    "digits of another script": lambda: "\u0663",
    "combining": lambda: "e\u0301" * 300,
    "code": lambda: "__import__('os').system('true')",
    "format": lambda: "{0.__class__} %s %n",
    "path up": lambda: "../../../../etc/passwd",
    "device": lambda: "/dev/zero",
    "folder": lambda: "/",
    "missing folder": lambda: "/no/such/folder/file.h5",
    "name of 300": lambda: "n" * 300 + ".h5",
    "url": lambda: "http://localhost:1/x.xyz",
    "bytes": lambda: b"pbe",
    "bytes not utf-8": lambda: b"\xff\xfe\x00",
    "bytearray": lambda: bytearray(b"pbe"),
    "memoryview": lambda: memoryview(b"abc"),
    "text subclass": lambda: TextOfAnotherKind("pbe"),
    "template": lambda: re.compile("a+"),
    "match": lambda: re.match("a", "a"),
    # --- containers
    "()": lambda: (),
    "[]": lambda: [],
    "{}": lambda: {},
    "set()": lambda: set(),
    "[None]": lambda: [None],
    "[1]": lambda: [1],
    "[1, 2, 3]": lambda: [1, 2, 3],
    "(0.1, 0.2)": lambda: (0.1, 0.2),
    "[nan]": lambda: [math.nan],
    "[True]": lambda: [True, False],
    "['a']": lambda: ["a", "b"],
    "['1', '2', '3']": lambda: ["1", "2", "3"],
    "[bytes]": lambda: [b"a"],
    "[1, 'a', None]": lambda: [1, "a", None],
    "ragged": lambda: [[1, 2], [3]],
    "ragged deep": lambda: [[1, [2, 3]], [4]],
    "nested 50": lambda: nested(50),
    "nested 100000": lambda: nested(100_000),
    "list in itself": lambda: in_itself(list),
    "dict in itself": lambda: in_itself(dict),
    "long list": lambda: [1.0] * 100_000,
    "list of lists": lambda: [[0.0, 0.0, 0.0]] * 4,
    "list of pairs": lambda: [("a", 1), ("b", 2)],
    "list of dicts": lambda: [{"a": 1}],
    "list of objects": lambda: [object(), object()],
    "list of functions": lambda: [len, print],
    "list of huge": lambda: [10**400],
    "list of complex": lambda: [1j, 2j],
    "tuple of 3 words": lambda: ("fermi", 0.1, "x"),
    "pair of words": lambda: ("gaussian", "wide"),
    "pair of arrays": lambda: (np.zeros((2, 3)), np.zeros(3)),
    "pair of None": lambda: (None, None),
    "namedtuple": lambda: collections.namedtuple("Pair", "a b")(1, 2),
    "frozenset": lambda: frozenset({1, 2}),
    "set of text": lambda: {"a", "b"},
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: 2},
    "dict of None": lambda: {None: None},
    "dict of tuples": lambda: {(1, 2): [3]},
    "dict with dunder": lambda: {"__class__": 1},
    "dict default": lambda: {"default": object()},
    "defaultdict": lambda: collections.defaultdict(list),
    "OrderedDict": lambda: collections.OrderedDict(a=1),
    "Counter": lambda: collections.Counter("abc"),
    "ChainMap": lambda: collections.ChainMap({"a": 1}),
    "MappingProxy": lambda: types.MappingProxyType({"a": 1}),
    "deque": lambda: collections.deque([1, 2]),
    "range": lambda: range(3),
    "empty range": lambda: range(0),
    "huge range": lambda: range(10**30),
    "slice": lambda: slice(1, 2),
    "generator": lambda: (x for x in (1, 2)),
    "empty generator": lambda: (x for x in ()),
    "failing generator": lambda: (1 / 0 for _ in (1,)),
    "endless": lambda: itertools.count(),
    "map": lambda: map(int, "12"),
    "zip": lambda: zip([1], [2], strict=True),
    "dict keys": lambda: {"a": 1}.keys(),
    "iterator": lambda: iter([1, 2]),
    # --- arrays
    "array 0-d": lambda: np.array(1.5),
    "array 0-d text": lambda: np.array("pbe"),
    "array empty": lambda: np.zeros(0),
    "array (0, 3)": lambda: np.zeros((0, 3)),
    "array (3,)": lambda: np.array([0.1, 0.2, 0.3]),
    "array (3,) nan": lambda: np.array([0.1, math.nan, 0.3]),
    "array (3,) inf": lambda: np.array([math.inf, 0.2, 0.3]),
    "array (1, 3)": lambda: np.zeros((1, 3)),
    "array (2, 3)": lambda: np.arange(6.0).reshape(2, 3),
    "array (2, 4)": lambda: np.ones((2, 4)),
    "array (1, 2, 2)": lambda: np.ones((1, 2, 2)),
    "array (2, 2, 2) nan": lambda: np.full((2, 2, 2), math.nan),
    "array (5, 5)": lambda: np.eye(5),
    "array 12-d": lambda: np.zeros((1,) * 12),
    "array int8": lambda: np.array([1, 2, 3], dtype=np.int8),
    "array bool": lambda: np.array([True, False]),
    "array float16": lambda: np.ones(3, dtype=np.float16),
    "array longdouble": lambda: np.ones(3, dtype=np.longdouble) * np.longdouble("1e4000"),
    "array complex": lambda: np.array([1j, 2, 3]),
    "array text": lambda: np.array(["a", "b"]),
    "array bytes": lambda: np.array([b"a"]),
    "array dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "array of objects": lambda: array_of_objects(1, "a", None),
    "array of arrays": lambda: array_of_objects(np.zeros(2), np.zeros(3)),
    "array of hostile": lambda: array_of_objects(hostile("__float__", "__repr__")),
    "structured": lambda: np.zeros(2, dtype=[("x", float), ("y", int)]),
    "masked": lambda: np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "matrix": lambda: np.asmatrix(np.eye(2)),
    "array subclass": lambda: np.zeros(3).view(ArrayOfAnotherKind),
    "not contiguous": lambda: np.zeros((6, 3))[::2, ::-1],
    "read only": lambda: np.broadcast_to(0.0, (10**6, 3)),
    "big endian": lambda: np.arange(3.0).astype(">f8"),
    "dtype": lambda: np.dtype(float),
    "jax 0-d": lambda: jnp.asarray(0.5),
    "jax (3,)": lambda: jnp.zeros(3),
    "jax complex": lambda: jnp.zeros(3, dtype=complex),
    "jax bool": lambda: jnp.asarray(True),
    "jax float32": lambda: jnp.zeros((2, 3), dtype=jnp.float32),
    "jax key": lambda: jax.random.key(0),
    "jax tracer": traced,
    "jax shape": lambda: jax.ShapeDtypeStruct((3,), float),
    "deleted jax array": lambda: (a := jnp.zeros(3) + 1, a.delete())[0],
    # --- code
    "type": lambda: int,
    "metaclass": lambda: type,
    "own class": lambda: Record,
    "len": lambda: len,
    "print": lambda: print,
    "max": lambda: max,
    "open": lambda: open,
    "lambda of none": lambda: lambda: None,
    "lambda of one": lambda: lambda x: x,
    "lambda of two": lambda: lambda x, y: None,
    "lambda of five": lambda: lambda a, b, c, d, e: None,
    "lambda of keywords": lambda: lambda *, a: a,
    "lambda that fails": lambda: lambda *a, **k: 1 / 0,
    "partial": lambda: functools.partial(int, base=2),
    "method": lambda: "a".join,
    "ufunc": lambda: np.sin,
    "jitted": lambda: jax.jit(lambda x: x),
    "generator function": lambda: lambda: (yield),
    "staticmethod": lambda: staticmethod(len),
    "property": lambda: property(len),
    "module": lambda: math,
    "this package": lambda: dftfd,
    "code object": lambda: compile("1", "x", "eval"),
    "frame": lambda: sys._getframe(),
    "exception": lambda: ValueError("wrong"),
    "exception class": lambda: KeyError,
    "KeyboardInterrupt": lambda: KeyboardInterrupt(),
    "signature": lambda: inspect.signature(len),
    # --- things
    "object": lambda: object(),
    "Path": lambda: pathlib.Path("nothing.h5"),
    "Path of folder": lambda: pathlib.Path("."),
    "PurePath": lambda: pathlib.PurePosixPath("a/b"),
    "bytes path": lambda: lying(fspath=b"abc"),
    "path of None": lambda: lying(fspath=None),
    "StringIO": lambda: io.StringIO("H 0 0 0"),
    "BytesIO": lambda: io.BytesIO(b"x"),
    "open file": lambda: open(os.devnull),  # noqa: SIM115
    "closed file": lambda: (f := open(os.devnull), f.close())[0],  # noqa: SIM115
    "standard output": lambda: sys.stdout,
    "date": lambda: datetime.date(2020, 1, 1),
    "time": lambda: datetime.datetime(2020, 1, 1, 12),
    "timedelta": lambda: datetime.timedelta(seconds=3),
    "uuid": lambda: uuid.UUID(int=0),
    "lock": lambda: threading.Lock(),
    "dataclass": lambda: Record(),
    "namespace": lambda: types.SimpleNamespace(points=1, weights=2),
    "everything": lambda: Everything(),
    "weak": lambda: sys.implementation,
    # --- hostile and lying objects
    "no repr": lambda: hostile("__repr__", "__str__"),
    "no eq": lambda: hostile("__eq__", "__ne__", "__hash__"),
    "no bool": lambda: hostile("__bool__"),
    "no len": lambda: hostile("__len__"),
    "no iter": lambda: hostile("__iter__"),
    "no getitem": lambda: hostile("__getitem__"),
    "no array": lambda: hostile("__array__"),
    "no float": lambda: hostile("__float__"),
    "no index": lambda: hostile("__index__"),
    "no call": lambda: hostile("__call__"),
    "no fspath": lambda: hostile("__fspath__"),
    "no getattr": lambda: hostile("__getattr__"),
    "no attribute": lambda: hostile("__getattribute__"),
    "nothing works": lambda: hostile(
        *(f"__{name}__" for name in "repr str eq hash bool len iter getitem array float int index call fspath".split())
    ),
    "repr of lines": lambda: lying(repr="a\nb\n" * 1000),
    "repr of 10^6": lambda: lying(repr="x" * 10**6),
    "repr no text": lambda: lying(repr=3),
    "len -1": lambda: lying(len=-1),
    "len 10^18": lambda: lying(len=10**18, getitem=1),
    "float nan": lambda: lying(float=math.nan),
    "float text": lambda: lying(float="a"),
    "index text": lambda: lying(index="a"),
    "array of text": lambda: lying(array="a"),
    "iter of None": lambda: lying(iter=None),
    "int subclass": lambda: WholeOfAnotherKind(3),
    "float subclass": lambda: RealOfAnotherKind(0.5),
    "of a hostile class": lambda: OfMeta(),
    "hostile class": lambda: OfMeta,
    "says it is text": lambda: Spoofed(str),
    "says it is a number": lambda: Spoofed(float),
    "says it is a molecule": lambda: Spoofed(dftfd.Molecule),
    "says it is a Functional": lambda: Spoofed(Functional),
    "list that fails": lambda: hostile("__iter__", "__len__", base=list),
    "dict that fails": lambda: hostile("__iter__", "__len__", "keys", "items", base=dict),
    # --- dftfd's own, in the wrong place
    "Molecule": lambda: HELIUM,
    "Molecule class": lambda: dftfd.Molecule,
    "result": lambda: result(),
    "SCFResult class": lambda: SCFResult,
    "Functional": lambda: dftfd.get_functional("pbe"),
    "Functional of tau": lambda: dftfd.get_functional("r2scan"),
    "hf": lambda: dftfd.exact_exchange,
    "Domain": lambda: SPACE,
    "Function": lambda: function(lambda r: r.sum(), SPACE),
    "Function of vectors": lambda: function(lambda r: r, SPACE),
    "density": lambda: result().density,
    "Grid": lambda: dftfd.molecular_grid([2], [[0.0, 0.0, 0.0]], 0),
    "settings": lambda: result().settings,
    "autofd": lambda: dftfd.autofd,
    "error of dftfd": lambda: dftfd.InputError("wrong"),
}

HELIUM = dftfd.molecule("He 0 0 0;", basis="sto-3g")
HYDROGEN = dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g")


@functools.cache
def result():
    """A small result."""
    return dftfd.run_scf(HYDROGEN, "lda,vwn", grid_level=1)


@functools.cache
def excitations():
    """Those of the small result."""
    return result().excitations(1)


@functools.cache
def vibrations():
    """Those of two atoms with made-up second derivatives."""
    along = np.zeros((3, 3))
    along[2, 2] = 0.4
    H = np.einsum("ab,xy->axby", np.array([[1.0, -1.0], [-1.0, 1.0]]), along)
    arrays = {"hessian": H, "dipole_derivatives": np.zeros((2, 3, 3)), "polarizability_derivatives": None}
    arrays |= {"coordinates": HYDROGEN.coordinates, "masses": np.ones(2), "forces": np.zeros((2, 3))}
    words = {"energy": -1.0, "multiplicity": 1, "free": True, "method": "none", "asymmetry": 0.0, "what": "H2"}
    return Vibrations(symbols=HYDROGEN.symbols, **arrays, **words)


@functools.cache
def differentiable():
    """A differentiable SCF and what it gives."""
    scf = dftfd.differentiable_scf(HYDROGEN, grid_level=1)
    return scf, scf("lda,vwn")


@functools.cache
def fitted():
    """A fit of one parameter to one number."""
    return dftfd.fit("gga_x_pbe", parameters=["kappa"], terms=[lambda f: jnp.reshape(f.parameters["kappa"] - 0.9, 1)])


@functools.cache
def inverted():
    """An inversion that began and ended with its reference, of hydrogen's density."""
    return dftfd.invert(HYDROGEN, result(), smoothing=1e-3)


def losses():
    """Those of dftfd.losses, as `calls` has them."""
    scf, found = differentiable()
    P, points, ones = np.asarray(found.density_matrix), np.zeros((2, 3)), np.ones(2)
    valid = {
        "energy": {"scf": scf, "reference": 0.0},
        "reaction_energy": {"scfs": {"H2": scf}, "stoichiometry": {"H2": 1.0}, "reference": 0.0},
        "density": {"scf": scf, "points": points, "weights": ones, "reference": np.zeros((1, 2))},
        "dipole": {"scf": scf, "reference": np.zeros(3)},
        "orbital_energies": {"scf": scf, "reference": np.zeros((1, 1))},
        "fock_matrix": {"scf": scf, "P": P, "reference": P},
        "orbital_gradient": {"scf": scf, "P": P},
        "potential": {"rho": result().density, "points": points, "weights": ones, "reference": np.zeros((2, 2))},
        "uniform_gas": {"densities": ones},
        "penalty": {"violation": lambda f: 0.0},
        "scaled": {"term": lambda f: 0.0, "unit": 1.0},
    }
    return {f"losses.{name}": (getattr(dftfd.losses, name), given) for name, given in valid.items()} | {
        "losses.mean_square": (lambda term: dftfd.losses.mean_square(term), {})
    }


def electrons(rho, weights):
    return weights @ rho.sum(axis=0)


def grid_functional_formula(rho, weights, gathered):
    return -0.01 * gathered * (weights @ (rho**2).sum(axis=0))


# ------------------------------------------------------------------------------------------------------- positions


def calls():
    """Name -> (function, valid arguments by name). Every parameter of the signature becomes a position."""
    found, pbe = result(), dftfd.get_functional("pbe")
    tpss = dftfd.get_functional("tpss")
    rho, tau = found.density, found.kinetic_energy_density
    hartree_fock = dftfd.energy(HYDROGEN, "hf")
    formula = lambda n: n * n  # noqa: E731
    return {
        "run_scf": (dftfd.run_scf, {"molecule": HYDROGEN, "xc": "lda,vwn"}),
        "molecule": (dftfd.molecule, {"source": "He 0 0 0;", "basis": "sto-3g"}),
        "optimize": (dftfd.optimize, {"molecule": HYDROGEN, "xc": "lda,vwn"}),
        "scan": (dftfd.scan, {"molecule": HYDROGEN, "xc": "lda,vwn", "atoms": (0, 1), "values": [0.8]}),
        "reaction_path": (dftfd.reaction_path, {"transition_state": found, "vibrations": vibrations()}),
        "ReactionPath.write": (PATH.write, {"path": "path.csv"}),
        "load_scan": (dftfd.load_scan, {"path": "none.json"}),
        "Scan.plot": (SCAN.plot, {"path": "scan.svg"}),
        "Scan.save": (SCAN.save, {}),
        "Scan.write": (SCAN.write, {}),
        "numerical_forces": (dftfd.numerical_forces, {"molecule": HYDROGEN, "xc": "lda,vwn"}),
        "nuclear_forces": (dftfd.nuclear_forces, {"result": found}),
        "run_batch": (dftfd.run_batch, {"molecules": [HYDROGEN], "xc": "lda,vwn"}),
        "benchmark": (dftfd.benchmark, {"benchmark_set": BENCHMARK, "xc": "lda,vwn", "basis": "sto-3g"}),
        "interaction_energy": (
            dftfd.interaction_energy,
            {"molecule": HYDROGEN, "fragments": [(0,), (1,)], "xc": "lda,vwn", "spins": [1, 1]},
        ),
        "solvation_energy": (dftfd.solvation_energy, {"molecule": HYDROGEN, "xc": "lda,vwn", "solvent": "water"}),
        "reaction": (
            dftfd.reaction,
            {"equation": "A = A2", "xc": "lda,vwn", "species": {"A": "He 0 0 0;", "A2": "He 0 0 0;"}},
        ),
        "energy": (dftfd.energy, {"molecule": HYDROGEN, "functional": "lda,vwn"}),
        "energy's density matrix": (hartree_fock, {}),
        "differentiable_scf": (dftfd.differentiable_scf, {"molecule": HYDROGEN}),
        "DifferentiableSCF.call": (differentiable()[0], {"functional": "lda,vwn"}),
        "DifferentiableResult.density": (differentiable()[1].density, {}),
        "fit": (
            dftfd.fit,
            {"functional": "gga_x_pbe", "training": BENCHMARK, "parameters": ["kappa"], "basis": "sto-3g"},
        ),
        "discover": (dftfd.discover, {"specification": "none.toml"}),
        "Fit.save": (fitted().save, {"path": "fitted.json", "name": "t_boundary"}),
        "invert": (dftfd.invert, {"molecule": HYDROGEN, "target": found}),
        "load_inversion": (dftfd.load_inversion, {"path": "inversion.h5"}),
        "Inversion.save": (inverted().save, {}),
        "Inversion.plot": (inverted().plot, {"path": "potential.png"}),
        "Inversion.potential": (lambda r: inverted().potential(r), {}),
        "interop.correlated_density": (correlated_density, {"molecule": HYDROGEN, "method": "fci"}),
        "load_functional": (dftfd.load_functional, {"path": "none.json"}),
        **losses(),
        "load_result": (dftfd.load_result, {"path": "good.h5"}),
        "load_excitations": (dftfd.load_excitations, {"path": "excitations.h5"}),
        "load_vibrations": (dftfd.load_vibrations, {"path": "vibrations.h5"}),
        "functional": (lambda **given: dftfd.functional(**given)(formula), {"name": "t_boundary"}),
        "functional's formula": (lambda formula: dftfd.functional("t_boundary")(formula), {}),
        "potential": (lambda **given: dftfd.potential(**given)(formula), {"name": "t_boundary"}),
        "potential's formula": (lambda formula: dftfd.potential("t_boundary")(formula), {}),
        "grid_functional": (
            lambda name, gather, by_blocks=True, spin_symmetric=True: dftfd.grid_functional(
                name, gather=gather, by_blocks=by_blocks, spin_symmetric=spin_symmetric
            )(grid_functional_formula),
            {"name": "t_boundary", "gather": electrons},
        ),
        "dm21": (dftfd.dm21, {"kind": "DM21", "checkpoints": "none"}),
        "grid_functional's formula": (lambda formula: dftfd.grid_functional("t_boundary")(formula), {}),
        "register": (dftfd.register, {"f": pbe, "name": "t_boundary"}),
        "get_functional": (dftfd.get_functional, {"spec": "pbe"}),
        "get_functional's parameter": (lambda kappa: dftfd.get_functional("pbe", kappa=kappa), {}),
        "long_range_exchange": (dftfd.long_range_exchange, {}),
        "list_functionals": (dftfd.list_functionals, {}),
        "density_function": (dftfd.density_function, {"molecule": HYDROGEN, "P": found.density_matrix}),
        "molecular_grid": (
            dftfd.molecular_grid,
            {"atomic_numbers": [1, 1], "coordinates": HYDROGEN.coordinates, "level": 0},
        ),
        "check": (dftfd.check, {"functional": "pbe"}),
        "audit": (dftfd.audit, {"target": "pbe"}),
        "audit_code": (dftfd.audit_code, {"target": "dftfd", "molecules": "water", "checks": "forces"}),
        "report_card": (dftfd.report_card, {"functional": "pbe"}),
        "prove": (dftfd.prove, {"functional": "lda_c_vwn_rpa", "condition": "ec_nonpositive", "boxes": 10}),
        "prove's own inequality": (lambda code: dftfd.prove("lda_c_vwn_rpa", code, boxes=10), {}),
        "load_proof": (dftfd.load_proof, {"path": "none.json"}),
        "export": (dftfd.export, {"functional": "pbe", "folder": "exported"}),
        "workbench": (dftfd.workbench, {"functional": "lda"}),
        # methods
        "Molecule.at": (HYDROGEN.at, {}),
        "Energy.components": (hartree_fock.components, {}),
        "Energy.with_functional": (hartree_fock.with_functional, {}),
        "SCFResult.stability": (found.stability, {}),
        "SCFResult.forces": (found.forces, {}),
        "SCFResult.polarizability": (found.polarizability, {}),
        "SCFResult.hyperpolarizability": (found.hyperpolarizability, {}),
        "SCFResult.excitations": (found.excitations, {}),
        "Excitations.natural_transition_orbitals": (excitations().natural_transition_orbitals, {"root": 0}),
        "Excitations.state": (excitations().state, {}),
        "Excitations.forces": (excitations().forces, {}),
        "Excitations.spectrum": (excitations().spectrum, {"energies": [0.1, 0.2]}),
        "Excitations.plot": (excitations().plot, {"path": "spectrum.png"}),
        "Excitations.save": (excitations().save, {}),
        "SCFResult.hessian": (found.hessian, {}),
        "SCFResult.vibrations": (found.vibrations, {}),
        "Vibrations.with_isotopes": (vibrations().with_isotopes, {}),
        "Vibrations.thermochemistry": (vibrations().thermochemistry, {}),
        "Vibrations.spectrum": (vibrations().spectrum, {"wavenumbers": [100.0, 4000.0]}),
        "Vibrations.write": (vibrations().write, {"path": "modes.xyz"}),
        "Vibrations.save": (vibrations().save, {}),
        "SCFResult.save": (found.save, {}),
        "SCFResult.view": (found.view, {}),
        "SCFResult.write": (found.write, {"path": "out.npz"}),
        "SCFResult.write cube": (
            lambda *, field="density", margin=1.0, spacing=2.0: found.write(
                "out.cube", field=field, margin=margin, spacing=spacing
            ),
            {},
        ),
        "SCFResult.write json": (lambda driver: found.write("out.json", driver=driver), {}),
        "SCFResult.to_qcschema": (found.to_qcschema, {}),
        "SCFResult.to_pyscf": (found.to_pyscf, {}),
        "SCFResult.charges": (found.charges, {}),
        "SCFResult.spin_populations": (found.spin_populations, {}),
        "SCFResult.parameter_gradient": (found.parameter_gradient, {}),
        "SCFResult.bond_orders": (found.bond_orders, {}),
        "SCFResult.orbital": (found.orbital, {"number": 0}),
        "SCFResult.require_converged": (found.require_converged, {}),
        "SCFResult.density": (lambda r: found.density(r), {}),
        "SCFResult.kinetic_energy_density": (lambda r: found.kinetic_energy_density(r), {}),
        "SCFResult.v_xc": (lambda r: found.v_xc(r), {}),
        "SCFResult.electrostatic_potential": (lambda r: found.electrostatic_potential(r), {}),
        "SCFResult.elf": (lambda r: found.elf(r), {}),
        "Functional.energy_density": (tpss.energy_density, {"rho": rho, "tau": tau}),
        "Functional.energy": (tpss.energy, {"rho": rho, "tau": tau, "quadrature": QUADRATURE}),
        "Functional.potential": (tpss.potential, {"rho": rho, "tau": tau, "quadrature": QUADRATURE}),
        "Functional.named": (pbe.named, {}),
        "Functional.workbench": (pbe.workbench, {}),
        "Functional.with_parameters": (lambda kappa: pbe.with_parameters(kappa=kappa), {}),
        "Functional.with_exact_exchange": (pbe.with_exact_exchange, {}),
    }


QUADRATURE = (np.zeros((2, 3)), np.ones(2))
SCAN = Scan(("H", "H"), (0, 1), False, "hf", np.array([0.7]), np.array([-1.0]), np.array([True]), np.zeros((1, 2, 3)))
PATH = ReactionPath(("H",), np.zeros((2, 1, 3)), np.zeros(2), np.arange(2.0), 0, True, "hf")
BENCHMARK = read_set("g21ip").sample(1, 0)

NOT_CALLED = {
    "DftfdError": "an error",
    "InputError": "an error",
    "__version__": "text",
    "autofd": "the operator calculus has a boundary of its own",
    "errors": "a module",
    "losses": "a module, whose functions are called",
    "exact_exchange": "a Functional",
    "skala": "takes no arguments",
    "Molecule": "built by `molecule`",
    "SCFResult": "built by `run_scf`",
    "Functional": "built by `functional` and `get_functional`",
    "Grid": "built by `molecular_grid`",
}
"""Public names that are not called with arguments, and why."""

CALLED = ("run_batch: on_outcome", "benchmark: on_step", "reaction: on_step", "audit_code: progress")
"""Positions of code that is called while the work is done: what it raises itself reaches the caller."""


def positions():
    """(name, call with one value) of every argument of every public function and method."""
    for name, (function_, valid) in calls().items():
        parameters = inspect.signature(function_).parameters.values()
        known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            known += ["nonsense", "grid_level", "guess"]  # one that nobody knows, two that run_scf does
        for parameter in known:
            yield f"{name}: {parameter}", lambda value, f=function_, v=valid, p=parameter: f(**v | {p: value})


# ------------------------------------------------------------------------------------------------------------- tests


@pytest.fixture
def nothing_is_computed(monkeypatch, tmp_path):
    """Calculations end where they would begin; files go to an empty folder."""
    result().save(tmp_path / "good.h5")
    excitations().save(tmp_path / "excitations.h5")
    vibrations().save(tmp_path / "vibrations.h5")
    inverted().save(tmp_path / "inversion.h5")
    differentiable()
    fitted()
    monkeypatch.chdir(tmp_path)

    def stop(*arguments, **named):
        raise Accepted

    import geometric.optimize

    monkeypatch.setattr("dftfd.model.calculation.Calculation.build", stop)
    monkeypatch.setattr(geometric.optimize, "Optimizer", stop)
    monkeypatch.setattr("dftfd.batch.in_processes", stop)
    monkeypatch.setattr("dftfd.training.fit_problem.in_processes", stop)
    monkeypatch.setattr("dftfd.terms.semilocal.orbitals_in_memory", stop)
    monkeypatch.setattr("dftfd.model.forces.overlap_integrals", stop)
    monkeypatch.setattr("dftfd.verify.report_card.Parts", stop)
    monkeypatch.setattr("dftfd.verify.proofs._decided", stop)
    monkeypatch.setattr("dftfd.translate.exporting.files_of", stop)
    monkeypatch.setattr("dftfd.interactive.workbench.parts_of", stop)
    monkeypatch.setattr("dftfd.results.result.nuclear_forces", stop)
    monkeypatch.setattr("dftfd.verify.check.pointwise_rows", stop)
    monkeypatch.setattr("dftfd.verify.audit._audit_layout", stop)
    monkeypatch.setattr("dftfd.verify.code_audit._outcome", stop)
    monkeypatch.setattr("dftfd.functionals.registry.require_valid", stop)


def answer(call, value):
    """None where the answer is one that users should see, else what is wrong with it."""
    try:
        call(value)
    except (Accepted, SystemExit):
        return None
    except DftfdError as error:
        text = str(error)
        if "\n" in text or not 0 < len(text) < 300 or not text.isprintable():
            return f"message of {len(text)} characters: {text[:200]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]!r}"
    return None


def failures(cases):
    """What is wrong, for each (position, call, kind of value)."""
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call, kind in cases:
            value = VALUES[kind]()
            if name in CALLED and callable(value):
                continue
            if (problem := answer(call, value)) is not None:
                wrong.append(f"{name} = <{kind}>: {problem}")
            if kind == "open file":
                value.close()
    return wrong


def all_cases():
    return [(name, call, kind) for name, call in positions() for kind in VALUES]


def test_the_walk_leaves_nothing_out():
    """Each public name is called with wrong values, or says why not; so is each public method with arguments."""
    called = {name.split("'")[0] for name in calls()}
    assert {*dftfd.__all__} == {*NOT_CALLED} | {name for name in called if "." not in name}
    kinds = dftfd.Molecule, SCFResult, Functional, Optimization, Interaction, Outcome, Forces, Grid, Excitations, Scan
    for kind in (*kinds, DifferentiableResult, Fit, Inversion, Vibrations, ReactionPath):
        for name, method in vars(kind).items():
            if (
                inspect.isfunction(method)
                and not name.startswith("_")
                and len(inspect.signature(method).parameters) > 1
            ):
                assert f"{kind.__name__}.{name}" in called


def test_there_are_two_hundred_kinds():
    """As many as the issue asks for."""
    assert len(VALUES) >= 200


def test_a_sample_of_all_values_at_all_positions(nothing_is_computed):
    """Each position and each kind of value several times."""
    cases = random.Random(SEED).sample(all_cases(), SAMPLE)
    assert failures(cases) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4), ids=lambda part: f"night{NIGHT}-{part}")
def test_other_values_at_other_positions(nothing_is_computed, part):
    """A tenth of all 120,000, others each day: all of them take half an hour. DFTFD_NIGHT: tests/order.py."""
    cases = all_cases() if EVERY_DAY else random.Random(NIGHT).sample(all_cases(), 12_000)
    assert failures(cases[part::4]) == []
