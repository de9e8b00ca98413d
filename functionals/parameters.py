"""Parameters of formulas, numbers or pytrees of arrays such as networks: what may be set, as text and as plain data."""

import hashlib
import re
from collections.abc import Mapping
from html import escape
from numbers import Number

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.errors import FunctionalError, UnsupportedError, closest_names, shown

LARGEST = 100_000
"""Numbers of an array that a definition holds as such."""


class Switch(float):
    """A parameter that only says where a formula jumps: plain as a whole number is, it has no derivative.

    Automatic differentiation would give zero, as the energy depends on it through a comparison alone.
    """


def replaced(known: Mapping, values: Mapping) -> dict:
    """Values in place of known ones; those of a `Switch` stay switches. UnsupportedError where one is traced."""
    found = dict(values)
    for name in [name for name in found if isinstance(known.get(name), Switch)]:
        if holds_tracers(found[name]):
            raise UnsupportedError(
                f"parameter {name!r} only says where the formula jumps, so there is no derivative by it; give it a "
                "plain number, and compare the energies of several."
            )
        found[name] = Switch(found[name])
    return found


_PREFIX = re.compile(r"(hyb_)?(lda|gga|mgga)_(x|c|xc|k)_")
_FRACTIONS, _OF_RANGES = ("a", "a0", "ax", "a_x", "alpha"), ("alpha", "beta", "mu")
"""What papers call the fractions of exact exchange in a hybrid, and those of CAM's two ranges and their omega."""
_OF_GRADIENTS = ("b", "c")
"""Becke's fractions of gradient corrections in hybrids of three parameters, which have exchange of the LDA, too."""


def place_of(functional: str, terms, exact_exchange, name: str) -> tuple[str, list]:
    """(parameter, its terms) of 'kappa', or of 'lyp.a', the a of gga_c_lyp.

    FunctionalError for what is not there, and for a name of one part that may be meant for the exact exchange.
    """
    part, dot, plain = name.rpartition(".")
    if dot and plain == "omega":
        raise FunctionalError(
            f"functional {functional!r}: omega is that of exact exchange, too; write omega=, for all parts together."
        )
    if dot:
        chosen = [t for t in terms if part in (t.name, _PREFIX.sub("", t.name)) and plain in t.parameters]
        if not chosen:
            known = ", ".join(dict.fromkeys(f"{t.name}.{key}" for t in terms for key in t.parameters if key == plain))
            raise FunctionalError(f"functional {functional!r} has no parameter {name!r}; there is {known or 'none'}.")
        return plain, chosen
    chosen = [t for t in terms if name in t.parameters]
    fractions = (_FRACTIONS if exact_exchange else ()) + (
        _OF_RANGES if any(holds_tracers(w) or w for w, _ in exact_exchange) else ()
    )
    if exact_exchange and any(t.name.endswith("lda_x") for t in terms):
        fractions += _OF_GRADIENTS
    if name in fractions and len(terms) > 1 and chosen:
        of_parts = " or ".join(dict.fromkeys(f"{t.name}.{name}" for t in chosen))
        meant, instead = "a fraction of exchange", "exact_exchange= for the fraction of a global hybrid"
        if name == "mu":
            meant, instead = "the range omega", "omega= for the range"
        raise FunctionalError(
            f"functional {functional!r}: {name!r} may be {meant}, and is a parameter of a part; write {of_parts} for "
            f"that, {instead}."
        )
    require_known(functional, terms, name)
    return name, chosen


def require_known(functional: str, terms, name: str) -> None:
    """Raise FunctionalError, with the closest names, unless a term has the parameter."""
    if not any(name in term.parameters for term in terms):
        known = {key: None for term in terms for key in term.parameters}
        closest = ", ".join(closest_names(name, known))
        has = ", ".join(known) if len(known) <= 12 else f"{len(known)}, the closest {closest}"
        raise FunctionalError(f"functional {functional!r} has no parameter {name!r}; it has {has or 'none'}.")


def require_settable(functional: str, terms, name: str, value) -> None:
    """Raise FunctionalError unless one value may take the place of the parameter in every term that has it."""
    require_known(functional, terms, name)
    holders = [term for term in terms if name in term.parameters]
    for term in holders:
        known = term.parameters[name]
        if not is_acceptable(value, known):
            shape = shape_of(known)
            expected = f"real numbers of shape {shape}" if shape else "a real number"
            found = f"{shown(value)} given, {expected} expected"
            raise FunctionalError(
                f"functional {functional!r}: parameter {name!r} is {_one_line(parameter_text(known))}; {found}."
            )
    if name != "omega":  # that of range separation belongs to exact exchange, too: exchange_ranges.with_range
        _require_one_value(functional, holders, name)


def _require_one_value(functional, holders, name):
    first, *others = holders
    for other in others:
        a, b = first.parameters[name], other.parameters[name]
        if not are_equal(a, b) and not holds_tracers((a, b)):
            text = lambda term: f"{_one_line(parameter_text(term.parameters[name]))} in {term.name!r}"
            raise FunctionalError(
                f"functional {functional!r}: parameter {name!r} is {text(first)} and {text(other)}; one value can't "
                "replace them. Set it in the term that is meant and add the others, as in "
                f"get_functional({first.name!r}, {name}=...) + get_functional({other.name!r})."
            )


def multiple(coefficient, name: str, n_terms: int) -> str:
    """The name of a multiple of a functional; FunctionalError for a coefficient that is known to be NaN, infinite or no
    number of float64."""
    if not holds_tracers(coefficient):
        found = np.asarray(coefficient)
        if found.dtype.kind in "iu":
            known = bool(np.all((found >= -(2**53)) & (found <= 2**53)))
        else:
            known = found.dtype.kind == "b" or bool(jnp.issubdtype(found.dtype, np.floating) and found.itemsize <= 8)
        if not known or np.ma.is_masked(coefficient):
            raise FunctionalError(
                f"coefficient {shown(coefficient)} is no real number of float64: give a float, or a whole number up to "
                "2^53."
            )
        if not np.all(np.isfinite(found)):
            raise FunctionalError(f"{coefficient} is not a finite number; coefficients and parameters have to be.")
    words = parameter_text(coefficient)
    return f"{words}*({name})" if n_terms > 1 else f"{words}*{name}"


def name_of(name: str, changes: Mapping) -> str:
    """The name of a functional with other values of its parameters."""
    return f"{name}({', '.join(f'{k}={parameter_text(v)}' for k, v in changes.items())})"


def are_equal(a, b) -> bool:
    """Whether two values of a parameter are known to be the same numbers; traced ones are if they are one object."""
    if a is b:
        return True
    (xs, structure), (ys, other) = (jax.tree_util.tree_flatten(value) for value in (a, b))
    if structure != other:  # type: ignore[operator]  # jaxlib's PyTreeDef has no stub
        return False
    return all(x is y or np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


def is_acceptable(value, known) -> bool:
    """Whether a value may take the place of a known one.

    For a number, an array or tuples of numbers: real numbers, traced or not, of the same lengths at every level, in
    tuples, lists or an array. For anything else, such as a network, anything.
    """
    try:
        return _fits(value, known)
    except Exception:  # somebody's object that cannot be looked at
        return False


def _fits(value, known):
    shape = shape_of(known)
    layers = isinstance(known, tuple | list) and any(map(np.ndim, jax.tree_util.tree_leaves(known)))
    return shape is None or layers or shape_of(value) == shape


def shape_of(value) -> tuple | None:
    """The shape of real numbers, where lengths differ that of each entry; None for what is not made of real numbers."""
    if isinstance(value, Number) or isinstance(getattr(value, "shape", None), tuple):
        return tuple(np.shape(value)) if _is_real(value) else None
    if not isinstance(value, tuple | list):
        return None
    shapes = [shape_of(entry) for entry in value]
    if None in shapes:
        return None
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return (len(shapes), *(shapes[0] or ()))
    return tuple(shapes) or (0,)


def _is_real(value) -> bool:
    if np.ma.is_masked(value):
        return False
    if not hasattr(value, "dtype"):
        return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)
    kinds = (np.floating, np.integer, np.bool_)
    return value.dtype.itemsize <= 8 and any(jnp.issubdtype(value.dtype, kind) for kind in kinds)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def parameter_text(value) -> str:
    """A parameter's value on one line; a network, or another pytree, by its kind and size."""
    if holds_tracers(value):
        return "traced"
    if isinstance(value, Number | str | tuple | list | dict | np.ndarray | jax.Array | None):
        return str(value)
    size = sum(np.size(x) for x in jax.tree_util.tree_leaves(value) if hasattr(x, "dtype"))
    return f"{type(value).__name__} of {size} numbers"


def plain(value):
    """A parameter as numbers in lists and dicts; of a network, or another pytree, its arrays by their places."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, Number | str | np.ndarray | jax.Array | None):
        return _plain_array(np.asarray(value))
    leaves, _ = jax.tree_util.tree_flatten_with_path(value)
    return {jax.tree_util.keystr(path): np.asarray(x).tolist() for path, x in leaves if hasattr(x, "dtype")}


def _plain_array(values: np.ndarray):
    """Numbers in lists; of more than `LARGEST` of them a fingerprint, by which a definition names them."""
    if values.size <= LARGEST:
        return values.tolist()
    return {"sha256": hashlib.sha256(str((values.dtype, values.shape)).encode() + values.tobytes()).hexdigest()}


def in_tuples(value):
    """Lists, as `Functional.definition` and JSON have them, as tuples at every level."""
    if isinstance(value, list | tuple):
        return tuple(map(in_tuples, value))
    return {k: in_tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


def varies(value) -> bool:
    """Whether there is an array, of NumPy or JAX, whose numbers may vary, in nested containers."""
    if isinstance(value, Mapping):
        return any(map(varies, value.values()))
    return any(map(varies, value)) if isinstance(value, tuple | list) else hasattr(value, "dtype")


def plain_leaves(value, place=()) -> set:
    """(place, number) of all plain numbers, and whatever else is no array, in nested containers."""
    if isinstance(value, Mapping):
        return {leaf for key, part in value.items() for leaf in plain_leaves(part, (*place, key))}
    if isinstance(value, tuple | list):
        return {leaf for key, part in enumerate(value) for leaf in plain_leaves(part, (*place, key))}
    if isinstance(value, Number):
        return {(place, value)}
    return set() if hasattr(value, "dtype") else {(place, id(value))}


def in_notebooks(functional) -> str:
    """What a notebook shows of a functional: its terms with their parameters, and exact exchange."""
    rows = [functional.name]
    for coefficient, term in functional.terms:
        numbers = ", ".join(f"{name} = {parameter_text(value)}" for name, value in term.parameters.items())
        rows.append(f"{coefficient:+10.6g} {term.name}  {numbers}".rstrip())
    for omega, fraction in functional.exact_exchange:
        rows.append(f"{fraction:+10.6g} exact exchange" + (f", erf(omega r)/r, omega = {omega:g}" if omega else ""))
    rows += pt2_rows(functional)
    return f"<pre>{escape(chr(10).join(rows))}</pre>"


def pt2_rows(functional) -> list[str]:
    """A line for the perturbation theory of a double hybrid."""
    if not functional.pt2:
        return []
    os, ss = functional.pt2
    words = f"opposite spins, {ss:+.6g} equal spins"
    return [f"{os:+.6g} second-order perturbation theory" + (f" of {words}" if os != ss else "")]
