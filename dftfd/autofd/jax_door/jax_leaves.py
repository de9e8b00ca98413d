"""Leaves that JAX takes for values: Functions in four roles, and their type; see jax_syntax."""

import types
from collections.abc import Callable
from typing import ClassVar

import jax
from jax.tree_util import tree_flatten, tree_leaves

from dftfd.autofd.core.domain import describe
from dftfd.autofd.core.function import Function, copy_as, parts
from dftfd.autofd.core.graph import has_variables
from dftfd.autofd.core.jax_adapter import HiType, register_hitype, shaped
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.packed import Packed, assemble
from dftfd.autofd.core.structure import structural_key
from dftfd.errors import AutofdError, LeakError, SignatureError


def as_leaf(f: Function) -> Function:
    """The same function as JAX sees it inside a transformation: jax.make_jaxpr prints operators, jit refuses it."""
    return copy_as(f, Function, opaque=True)


def as_pytree(f: Function) -> Packed:
    """The arrays that a function carries as a pytree p; p.function is the function.

    For JAX a Function is a vector, whatever it carries. This is the other view of it, a point in the space of its
    parameters: jax.grad(lambda p: E(p.function))(as_pytree(f)) has the derivatives with respect to the arrays.
    """
    return Packed(f)


class _Leaf(Function):
    """Base of leaves. JAX asks its values whether they turn into arrays by a method; these have none."""

    __slots__ = ()

    @property
    def __jax_array__(self):
        raise AttributeError("a leaf is no array")

    __array__ = __jax_array__


class KnownLeaf(_Leaf):
    """A Function in the role of a leaf: not a registered pytree, so JAX takes it as a value."""

    __slots__ = ()


class OpenLeaf(_Leaf):
    """A leaf whose type does not name the function: its value inside a transformation."""

    __slots__ = ()


class TangentLeaf(_Leaf):
    """A tangent or cotangent."""

    __slots__ = ()


class MappedLeaf(_Leaf):
    """A function with arrays that vmap maps over; it can't leave vmap."""

    __slots__ = ()


# ---- the type of a leaf

CROSSES_JIT = (
    "a function that JAX is differentiating can't cross jit, scan, cond, while or checkpoint inside the functional: "
    "apply these outside, or use dftfd.autofd.grad. To differentiate with respect to arrays that the function carries, "
    "pass dftfd.autofd.as_pytree(f), and use p.function inside."
)


class NotAnArrayError(SignatureError, AttributeError):
    """A property of arrays was asked of a function."""


class FunctionType(HiType):
    """Type of a leaf for JAX.

    kind: "known", a given function, whose graph the type names, so it crosses jit as its arrays; "symbolic", inside a
        transformation; "tangent", tangents and cotangents.
    structure, avals: of a known function, its graph and the types of the arrays that it carries.
    """

    def __init__(self, signature, kind, structure=None, avals=()):
        self.signature, self.kind, self.structure, self.avals = signature, kind, structure, tuple(avals)
        leaves, tree = tree_flatten(signature.result)
        domains = tuple(d.structural_key() for d in signature.domains)
        self._space = (domains, tree, tuple(map(structural_key, leaves)))
        self._key = (self._space, kind, structure, self.avals)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotAnArrayError(
            f"JAX treats a function as an array (it asks for {name!r}): transformations that go through all entries, "
            "such as jacfwd, jacrev and hessian, do not exist for functions. dftfd.autofd.jacrev does what can be done."
        )

    @property
    def dtype(self):  # jax.linear_transpose of JAX 0.10 asks for it
        return tree_leaves(self.signature.result)[0].dtype

    def __hash__(self):
        return hash(self._key)

    def __eq__(self, other):
        if not isinstance(other, FunctionType) or self._space != other._space:
            return False
        # A function that the user has may be given where a tangent is expected. Programs never have arguments of the
        # type "tangent": the functional gets them as "symbolic", so no cached program is found by mistake.
        return self._key == other._key or (self.kind == "tangent") != (other.kind == "tangent")

    def str_short(self, short_dtypes=False, mesh_axis_types=False, **_):
        points = ", ".join(describe(d.spec) for d in self.signature.domains)
        return f"Function[{points} -> {describe(self.signature.result)}]"

    def __repr__(self):
        hint = "; wrap a function in autofd.as_leaf to pass it here" if self.kind == "symbolic" else ""
        return self.str_short() + hint

    def normalize(self):
        # JAX compares a cotangent's type with that of the result that it belongs to, after this
        return FunctionType(self.signature, "tangent") if self.kind == "symbolic" else self

    def to_tangent_aval(self):
        return FunctionType(self.signature, "tangent")

    def vspace_zero(self):
        return copy_as(op.zeros(self.signature), TangentLeaf)

    def vspace_add(self, x, y):
        return self.add(x, y)

    add: ClassVar[Callable]  # the sum of two tangents; set by dftfd.autofd.jax_door.jax_syntax

    def lo_ty(self):
        if self.kind != "known":
            raise LeakError(CROSSES_JIT)
        return list(self.avals)

    def lower_val(self, value):
        return list(parts(value)[0])

    def raise_val(self, *arrays):
        if self.kind != "known":
            raise LeakError(CROSSES_JIT)
        return copy_as(assemble(self.structure, arrays), KnownLeaf)

    def dec_rank(self, size, spec):
        if self.kind == "mapped":
            return FunctionType(self.signature, "known", self.structure, self.avals)
        raise LeakError(MAPPED)

    def inc_rank(self, size, spec):
        raise LeakError(MAPPED)


MAPPED = (
    "functions can't be mapped over by vmap or scan: use in_axes=None for a function; to map over the arrays that it "
    "carries, pass or return dftfd.autofd.as_pytree(f), and use p.function inside. Jacobians with functions as values: "
    "dftfd.autofd.jacfwd."
)


def check_not_watched(f):
    """Raise for a function that a transformation of this package is differentiating: JAX would not see it."""
    if has_variables(f):
        raise LeakError(
            f"{f!r} is being differentiated by dftfd.autofd, and JAX is asked to transform a program of it. Use the "
            "transformations of dftfd.autofd inside these."
        )


def _refuse_function(f):
    raise SignatureError(
        f"a primitive of JAX was given a function, {f!r}, where it takes arrays: use the one of dftfd.autofd (exp, "
        "sin, ...), or compose(code, f) with code of one value."
    )


register_hitype(Function, _refuse_function)  # as a pytree it gets a leaf, of a class of its own


class CodeError(AutofdError):
    """JAX was given Python code in the place of an array. No TypeError: JAX would put its own text in its place."""


def _refuse_code(code):
    raise CodeError(
        f"JAX was given Python code, {getattr(code, '__name__', 'a function')!r}, where it takes arrays. A function to "
        "differentiate with respect to declares its spaces: dftfd.autofd.function(code, X)."
    )


register_hitype(types.FunctionType, _refuse_code)  # code has no type for JAX anyway; this says what to write


def _register(leaf_class, kind):
    def type_of(f):
        check_not_watched(f)
        if kind not in ("known", "mapped"):
            return FunctionType(f.signature, kind)
        arrays, structure = parts(f)
        return FunctionType(f.signature, kind, structure, (shaped(jax.typeof(x)) for x in arrays))

    register_hitype(leaf_class, type_of)


_register(KnownLeaf, "known")
_register(OpenLeaf, "symbolic")
_register(TangentLeaf, "tangent")
_register(MappedLeaf, "mapped")
