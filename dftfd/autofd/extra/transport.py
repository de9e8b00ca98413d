"""The transpose of f -> f(g) with respect to f: a density moves with y = g(x).

<f(g), ct> = int f(g(x)) ct(x) w(x) dx = int f(y) sum_b ct(x_b) |det D g_b^-1(y)| w(x_b) dy,   x_b = g_b^-1(y),

the sum over the branches of the inverse whose x_b lie in the space of x: nothing where y is no value of g, several
terms where g takes a value several times. A substitution makes of one argument of ct the density of y = g(x),

    y -> sum over b of ct(x_b, ...) |det D g_b^-1(y)| w(x_b) / w(y).

What is registered and what the spaces declare is tried before it is used. Both spaces say where they end
(`Domain(ends=...)`). Then g is tried at the points of the quadrature and some more: its
values have to lie in the space of y, and each x has to come back from exactly one branch. On a circle y + length is the
same point: a g that winds k times around has k preimages. Where the spaces do not say where they end, the substitution
itself is tried with a few integrands on the two quadratures.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.domain import Domain, same_spec
from dftfd.autofd.core.function import Function, is_constant, parts
from dftfd.autofd.core.graph import with_arrays, without_variables
from dftfd.autofd.core.inverses import branches_of
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import NoRuleError


@op.register
def transport(ct: Function, inner: tuple[Function, ...], target: tuple[Domain, ...]) -> Function:
    """What ct becomes under x -> y = (g_1, ..., g_n)(x): a Function on `target`, or a distribution.

    It is a function if each g is a known one-to-one map of an argument of its own onto its space, else the image of
    ct, which integrals consume; see `dirac`. Where all g are constant these are Dirac terms.
    ct is integrated over the arguments that no g uses.   target: the domains of y_1..y_n.
    """
    inner = tuple(inner)
    if ct.singular:
        return _transported_dirac(ct, inner, target)
    for g, domain in zip(inner, target, strict=True):
        check_values(g, domain)
    points = {i: constant_value(g) for i, g in enumerate(inner)}
    points = {i: p for i, p in points.items() if p is not None}
    if len(points) == len(inner):
        return op.dirac(op.integrate_over(ct, tuple(range(len(ct.domains)))), target, tuple(points), points.values())
    masked, reason, density = False, "", None
    try:
        own, moved = _own_arguments(inner, target), ct
        for position, i, h in own:
            moved, jumps = substituted(moved, position, h, target[i])
            masked = masked or jumps
        unused = tuple(k for k in range(len(ct.domains)) if k not in [p for p, *_ in own])
        density = op.permute(
            op.integrate_over(moved, unused), np.argsort([i for _, i, _ in sorted(own, key=lambda o: o[0])])
        )
    except NoRuleError as error:
        reason = str(error)
    if density is not None and not masked:
        return density
    return op.image(ct, ct.domains, target, tuple(range(len(target))), inner, density, reason)


def _own_arguments(inner, target):
    """[(number of the argument, i, h)] with g_i(x_1, x_2, ...) = h(x_number), the numbers different."""
    own: list[tuple[int, int, Function]] = []
    for i, (g, domain) in enumerate(zip(inner, target, strict=True)):
        position, h = _own_argument(g)
        if position in [p for p, *_ in own] or not same_spec(h.domains[0].spec, domain.spec):
            raise NoRuleError(
                f"the transpose with respect to a function of {', '.join(map(repr, inner))} has values if each of "
                "these is an invertible function of its own argument."
            )
        own.append((position, i, h))
    return own


def _transported_dirac(ct, inner, target):
    """s delta(x - x0) becomes s delta(y - g(x0))."""
    regular, terms = op.separate(ct)
    parts = [] if regular is None else [transport(regular, inner, target)]
    for t in terms:
        if t.sources or len(t.argnums) != len(ct.domains):
            raise NoRuleError(f"the image of {ct!r}, a distribution in some arguments, has no rule.")
        point = [t.points[t.argnums.index(i)] for i in range(len(t.argnums))]
        parts.append(op.dirac(t.strength, target, tuple(range(len(target))), [g(*point) for g in inner]))
    return functools.reduce(operator.add, parts)


def _own_argument(g):
    """(k, h) if g(x_1, x_2, ...) = h(x_k)."""
    if g.operator.name == "broadcast" and len(g.static["argnums"]) == 1:
        return g.static["argnums"][0], g.operands[0]
    if g.operator.name == "compose" and len(g.operands) == 2:
        outer, inner = g.operands
        position, h = _own_argument(inner)
        return position, op.compose(outer, h)
    if len(g.domains) != 1:
        raise NoRuleError(f"{g!r} is a function of {len(g.domains)} arguments, so it has no inverse.")
    return 0, g


_COUNT = 128  # points at which a substitution is tried, besides those of the quadrature
_TOLERANCE = 1e-7


def check_values(g: Function, target: Domain):
    """Raise if g takes values outside of `target`, where a function on that space is not known to the pairing."""
    if (
        target.extent is None
        or (np.isinf(target.extent.low) & np.isinf(target.extent.high) | target.extent.periodic).all()
    ):
        return
    if any(map(is_tracer, parts(g)[0])):
        raise NoRuleError(
            f"whether the values of {g!r} lie in {target!r} can't be determined, because it contains values of a "
            "JAX transformation. Take the functional derivative outside of jit, vmap and jax.grad."
        )
    values = _image(g)
    outside = ~(target.extent.contains(values, 1e-9) & np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if outside.any():
        raise NoRuleError(
            f"{g!r} takes the value {values[outside][0]}, outside the space {target!r} of the outer function. Use "
            "a space that contains all of its values."
        )


def constant_value(g: Function):
    """The value of g if it is constant; else None."""
    if is_constant(g):
        return g.arrays[0]
    if any(map(is_tracer, parts(g)[0])):
        return None
    values = _image(g)
    return jnp.asarray(values[0]) if np.all(values == values[0]) else None


def _image(g: Function) -> np.ndarray:
    """Values of g on its spaces."""
    points = [_samples(d) for d in g.domains]
    count, rng = max(map(len, points)), np.random.default_rng(11)
    chosen = [np.resize(x, (count, *x.shape[1:])) for x in points]
    with jax.ensure_compile_time_eval():
        shuffled = [jnp.asarray(x if len(chosen) == 1 else rng.permutation(x)) for x in chosen]
        return np.asarray(jax.vmap(without_variables(g).evaluate)(*shuffled))


def substituted(ct: Function, position: int, g: Function, target: Domain) -> tuple[Function, bool]:
    """(ct with its argument x at `position` replaced by y = g(x), a point of `target`; whether that may jump)."""
    source = ct.domains[position]
    branches = branches_of(g, target)
    shifts, masked, half = _plan(g, branches, source, target)
    domains = (*ct.domains[:position], target, *ct.domains[position + 1 :])
    others = [op.broadcast(op.identity(d), domains, (i,)) for i, d in enumerate(domains)]
    terms = []
    for x, log_det in branches:
        for shift in shifts:
            preimage, scale = _preimage(g, x, log_det, shift, source, target, masked, half)
            place = [*others[:position], op.broadcast(preimage, domains, (position,)), *others[position + 1 :]]
            terms.append(op.compose(ct, *place) * op.broadcast(scale, domains, (position,)))
    return functools.reduce(operator.add, terms), masked


def _preimage(g, x, log_det, shift, source, target, masked, half):
    """(x_b, |det D g_b^-1| w(x_b) / w(y)) of y + shift, as Functions of y; where there is none the second is 0."""
    if not masked and not np.any(shift):
        return x, _scale(log_det, x, source, target)
    y = op.identity(target) + shift
    if not masked:
        return x(y), _scale(log_det(y), x(y), source, target)
    raw = x(y)
    weight = op.compose(Inside(source.extent, half), raw, g(raw), y)
    safe = g(op.constant(jnp.asarray(_samples(source)[0]), target))  # elsewhere a value of g: nothing comes from NaN
    y = op.compose(_choose, weight, y, safe)
    return x(y), _scale(log_det(y), x(y), source, target) * weight


def _scale(log_det, preimage, source, target):
    """|det D g^-1(y)| w(g^-1(y)) / w(y)"""
    scale = op.compose(jnp.exp, log_det)
    if source.density is not None:
        scale = scale * op.function(source.density, source)(preimage)
    if target.density is not None:
        scale = scale / op.function(target.density, target)
    return scale


# ---- preimages that are none


class Inside(Code):
    """(x, g(x), y) -> 1 where x lies in the space and g(x) = y, else 0; 1/2 at its ends if `half`."""

    __name__ = "inside"

    def __init__(self, extent, half):
        self.extent, self.half = extent, half

    def __call__(self, x, image, y):
        axes = tuple(range(jnp.ndim(y)))
        scale = 1 + jnp.max(jnp.abs(y), initial=0.0)
        there = jnp.all(jnp.abs(image - y) <= _TOLERANCE * scale, axis=axes)
        within = jnp.where(there & self.extent.contains(x, 1e-12), 1.0, 0.0)
        if self.half:
            within = 0.5 * (within + jnp.where(there & self.extent.contains(x, -1e-12), 1.0, 0.0))
        return jax.lax.stop_gradient(within)


def _choose(weight, y, otherwise):
    return jnp.where(weight > 0, y, otherwise)


# ---- trying a substitution


def _plan(g, branches, source, target):
    """(shifts of y by periods, whether preimages have to be tested, whether those at the ends count half)."""
    if source.discrete or target.discrete:
        raise NoRuleError(f"{g!r} maps between {source!r} and {target!r}; sums over points have no substitution rule.")
    trial = _with_known_arrays(g, branches)
    if source.extent is None or target.extent is None:
        _check_by_integrals(g, trial, source, target)
        return [np.zeros(target.shape)], False, False
    x = _samples(source)
    y = trial.image(x)
    trial.check_branches(x, y)
    shifts, wraps = _periods(g, trial, source, target, y)
    if wraps:
        return shifts, not source.extent.periodic.all() and not trial.is_onto(_samples(target)), False
    masked = len(branches) > 1 or len(shifts) > 1 or not trial.is_onto(_samples(target))
    return shifts, masked, bool(target.extent.periodic.any())


def _periods(g, trial, source, target, y):
    """(periods to be added to y, whether g maps circles to circles)."""
    cyclic, cell = target.extent.periodic, target.extent.high - target.extent.low
    if not cyclic.any():
        return [np.zeros(target.shape)], False
    if np.array_equal(cyclic, source.extent.periodic):
        count = trial.winding(source, target)
        if count == 1:
            return [np.zeros(target.shape)], True
        if target.shape == ():
            return [k * cell for k in range(count)], True
    elif target.shape == ():
        first, last = np.floor((np.array([y.min(), y.max()]) - target.extent.low) / cell + [-1e-9, 1e-9])
        return [k * cell for k in np.arange(first, last + 1)], False
    raise NoRuleError(f"{g!r}: substitution from {source!r} to {target!r} around several circles has no rule here.")


class _Trial:
    """g and its branches, without unknown arrays."""

    def __init__(self, name, g, branches):
        self.name, self._g, self._branches = name, g, branches

    def _at(self, f, points):
        with jax.ensure_compile_time_eval():
            return np.asarray(jax.vmap(f.evaluate)(jnp.asarray(points)))

    def image(self, x):
        return self._at(self._g, x)

    def _slopes(self, x):
        with jax.ensure_compile_time_eval():
            jacobian = np.asarray(jax.vmap(jax.jacfwd(self._g.evaluate))(jnp.asarray(x)))
        size = int(np.sqrt(jacobian[0].size))
        return jacobian.reshape(len(x), size, size)

    def check_branches(self, x, y):
        """Each x comes back from g(x) by exactly one branch, with its determinant."""
        source = self._g.domains[0].extent
        J = self._slopes(x)
        det = np.abs(np.linalg.det(J))
        size = lambda v: np.abs(v).reshape(len(v), -1).max(axis=1)
        # where g is too flat, its inverse can't tell neighbouring points apart in float64
        smallest = np.array([np.linalg.svd(j, compute_uv=False)[-1] for j in J])
        clear = smallest * 1e-8 * (1 + size(x)) > 4e-16 * (1 + size(y))
        found = np.zeros(len(x), int)
        for inverse, log_det in self._branches:
            back = self._at(inverse, y)
            difference = np.where(np.isfinite(back), back - x, np.inf)
            if source is not None and source.periodic.any():
                cell = np.where(source.periodic, source.high - source.low, 1.0)
                turns = np.round(np.where(np.isfinite(difference), difference, 0.0) / cell)
                difference = difference - np.where(source.periodic, cell * turns, 0.0)
            same = size(difference) <= _TOLERANCE * (1 + size(x))
            found += same
            sure = same & clear
            with np.errstate(over="ignore"):
                product = np.exp(self._at(log_det, y)) * det
            if sure.any() and not np.allclose(product[sure], 1.0, rtol=1e-5):
                raise NoRuleError(
                    f"the determinant registered for the inverse of {self.name} is not that of its inverse."
                )
        if np.sum(clear) < len(x) / 2 or not np.all(found[clear] == 1):
            wrong = x[clear & (found != 1)]
            where = f"x = {wrong[0]} comes back {found[clear & (found != 1)][0]} times" if len(wrong) else "it is flat"
            raise NoRuleError(
                f"{self.name} is not one-to-one with the inverse that is registered for it: {where}. Register all "
                "branches, register_inverse(g, (inverse_1, inverse_2, ...))."
            )

    def is_onto(self, y):
        """True if every y has exactly one preimage, by a single branch."""
        source = self._g.domains[0].extent
        if len(self._branches) != 1 or source is None:
            return False
        x = self._at(self._branches[0][0], y)
        if not np.isfinite(x).all():
            return False
        close = np.abs(self._at(self._g, x) - y) <= _TOLERANCE * (1 + np.abs(y))
        return bool(close.all() and source.contains(x, 1e-9).all())

    def winding(self, source, target):
        """How often g goes through the cell of `target` while x goes through that of `source`, a whole number."""
        cyclic = source.extent.periodic
        cells = [np.where(e.periodic, e.high - e.low, 1.0) for e in (source.extent, target.extent)]
        x = _samples(source)
        turns = []
        for j in np.flatnonzero(np.ravel(cyclic)):
            step = np.zeros(cyclic.size)
            step[j] = np.ravel(cells[0])[j]
            turn = (self.image(x + step.reshape(cyclic.shape)) - self.image(x)) / cells[1]
            turns.append(np.asarray(turn).reshape(len(x), -1))
        W = np.stack(turns, axis=-1)  # (point, coordinate of y, coordinate of x)
        rounded = np.round(W[0])
        straight = np.all(np.ravel(cyclic)[:, None] | (rounded == 0))
        count = abs(round(np.linalg.det(rounded[np.ravel(cyclic)])))
        if not np.allclose(W, rounded, atol=1e-6) or not straight or count == 0:
            raise NoRuleError(f"{self.name} does not map {source!r} around {target!r} a whole number of times.")
        return count


def _with_known_arrays(g, branches) -> _Trial:
    """g and its branches with values between 0.5 and 1.5 in the places of arrays that are not known."""
    rng, known = np.random.default_rng(20240507), {}

    def concrete(f):
        leaves = parts(f)[0]
        for x in leaves:
            if is_tracer(x) and id(x) not in known:
                known[id(x)] = jnp.asarray(rng.uniform(0.5, 1.5, x.shape), x.dtype)
        return with_arrays(f, {k: known[id(x)] for k, x in enumerate(leaves) if id(x) in known})

    with jax.ensure_compile_time_eval():
        pairs = [(concrete(x), concrete(log_det)) for x, log_det in branches]
        return _Trial(repr(g), concrete(g), pairs)


def _samples(domain: Domain) -> np.ndarray:
    """Points of a space (point, *shape): some of its quadrature, and others spread over it."""
    size = int(np.prod(domain.shape, dtype=int))
    roots = np.sqrt([2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29][:size]) if size <= 10 else np.sqrt(2 * np.arange(size) + 3.0)
    u = np.mod(np.outer(np.arange(1, _COUNT + 1), roots), 1.0).reshape(_COUNT, *domain.shape)
    extent = domain.extent
    low, high = (-np.inf, np.inf) if extent is None else (extent.low, extent.high)
    begins, ends, rising, falling = np.isfinite(low), np.isfinite(high), -np.log1p(-u), np.log(u)
    first, last = np.where(begins, low, 0.0), np.where(ends, high, 0.0)
    spread = [first + (last - first) * u, first + rising, last + falling]
    others = np.select([begins & ends, begins, ends], spread, rising + falling)
    if domain.points is None:
        return others
    points = np.asarray(domain.points)
    return np.concatenate([others, points[:: -(-len(points) // _COUNT)]]) if extent is not None else points


def _check_by_integrals(g, trial, source, target):
    """Raise unless sum w phi(g(x)) = sum w phi(y) scale(y) for a few phi, on the quadratures of the two spaces."""
    unknown = f"whether {g!r} maps {source!r} onto {target!r} is not known: give both spaces ends=(low, high)."
    if source.points is None or target.points is None or len(trial._branches) != 1:
        raise NoRuleError(unknown)
    x, w = (np.asarray(a) for a in source.quadrature())
    y, v = (np.asarray(a) for a in target.quadrature())
    (inverse, log_det), images = trial._branches[0], trial.image(x)
    with jax.ensure_compile_time_eval():
        scale = trial._at(_scale(log_det, inverse, source, target), y)
    centre, width = y.mean(axis=0), y.std(axis=0) + 1e-300

    def integrands(points):
        t = ((points - centre) / width).reshape(len(points), -1)
        return np.stack([np.ones(len(t)), t.sum(axis=1), (t * t).sum(axis=1), np.cos(t).prod(axis=1)])

    left, right = integrands(images) @ w, integrands(y) @ (v * scale)
    size = np.abs(integrands(y)) @ np.abs(v * scale)
    if not np.all(np.abs(left - right) <= 1e-8 * (1e-300 + size)):
        raise NoRuleError(unknown)
    trial.check_branches(x, images)
