"""Leaves that JAX takes for values: Functions in four roles, and their type; see dftfd.autofd.jax_syntax."""

from jax.experimental.hijax import HiType, register_hitype
from jax.tree_util import tree_flatten, tree_leaves

from dftfd.autofd.domain import describe
from dftfd.autofd.function import Function, parts
from dftfd.autofd.graph import has_variables
from dftfd.autofd.jax_graphs import copy_as
from dftfd.autofd.operators.leaf import zeros
from dftfd.autofd.structure import holds_tracers, structural_key
from dftfd.errors import LeakError, SignatureError

RESULT, EXPLICIT = 1, 2  # reasons for a Function with arrays to be a leaf: it came out of jax.grad, or was declared so


def as_leaf(f: Function) -> Function:
    """The same function as one leaf for JAX, also if it carries arrays: jax.grad gives the functional derivative."""
    return copy_as(f, Function, opaque=EXPLICIT)


def as_pytree(f: Function) -> Function:
    """The same function as a pytree of its arrays: jax.grad gives the gradient with respect to these."""
    return copy_as(f, Function, opaque=0)


class KnownLeaf(Function):
    """A Function in the role of a leaf: not a registered pytree, so JAX takes it as a value."""

    __slots__ = ()


class OpenLeaf(Function):
    """A leaf whose type does not name the function: its value inside a transformation."""

    __slots__ = ()


class TangentLeaf(Function):
    """A tangent or cotangent."""

    __slots__ = ()


# ---- the type of a leaf

_JIT = (
    "a function that JAX is differentiating can't cross jit, scan, cond, while or checkpoint inside the functional: "
    "apply these outside, or use dftfd.autofd.grad."
)


class NotAnArrayError(SignatureError, AttributeError):
    """A property of arrays was asked of a function."""


class FunctionType(HiType):
    """Type of a leaf for JAX.

    kind: "known", a given function, named by the type so that jit may take it for a constant; "symbolic", inside a
        transformation; "tangent", tangents and cotangents.
    """

    def __init__(self, signature, kind, function=None):
        self.signature, self.kind, self.function = signature, kind, function
        leaves, structure = tree_flatten(signature.result)
        domains = tuple(d.structural_key() for d in signature.domains)
        self._space = (domains, structure, tuple(map(structural_key, leaves)))
        self._key = (self._space, kind, None if function is None else function.structural_key())

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

    def str_short(self, short_dtypes=False, **_):
        points = ", ".join(describe(d.spec) for d in self.signature.domains)
        return f"Function[{points} -> {describe(self.signature.result)}]"

    def __repr__(self):
        hint = "; wrap a function in autofd.as_leaf to pass it here" if self.kind == "symbolic" else ""
        return self.str_short() + hint

    def to_tangent_aval(self):
        return FunctionType(self.signature, "tangent")

    def vspace_zero(self):
        return copy_as(zeros(self.signature), TangentLeaf)

    def vspace_add(self, x, y):
        from dftfd.autofd.jax_syntax import add_leaves

        return add_leaves(x, y)

    def lo_ty(self):
        if self.kind != "known":
            raise LeakError(_JIT)
        return []

    def lower_val(self, value):
        if holds_tracers(parts(value)[0]):
            raise LeakError("a function leaf that carries traced arrays can't cross jit; pass autofd.as_pytree(f).")
        return []

    def raise_val(self):
        if self.kind != "known":
            raise LeakError(_JIT)
        return copy_as(self.function, KnownLeaf)

    def dec_rank(self, size, spec):
        raise LeakError(
            "a function can't be mapped over by vmap or scan; use in_axes=None, or stack arrays it carries."
        )

    inc_rank = dec_rank


def check_not_watched(f):
    """Raise for a function that a transformation of this package is differentiating: JAX would not see it."""
    if has_variables(f):
        raise LeakError(
            f"{f!r} is being differentiated by dftfd.autofd, and JAX is asked to transform a program of it. Use the "
            "transformations of dftfd.autofd inside these."
        )


def _register(leaf_class, kind):
    def type_of(f):
        check_not_watched(f)
        return FunctionType(f.signature, kind, f if kind == "known" else None)

    register_hitype(leaf_class, type_of)


_register(KnownLeaf, "known")
_register(OpenLeaf, "symbolic")
_register(TangentLeaf, "tangent")
