"""Random functionals built from the operators, read in two ways: by dftfd.autofd, and as plain JAX on arrays of values.

A program is a nested tuple. `Operators` reads it with a Function in the place of f, `Arrays` with the vector of its
values at the points of the space; the second knows sums, matrices and pointwise arithmetic only.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dftfd import autofd as fd
from tests.autofd_spaces import kernel

POINTWISE = {
    "square": lambda v: v * v,
    "sin": jnp.sin,
    "exp": lambda v: jnp.exp(0.3 * v),
    "ratio": lambda v: 1 / (2 + v * v),
    "power": lambda v: (1 + v * v) ** 1.5,
}
BINARY = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply}


class Operators:
    """Programs read with the operators of dftfd."""

    def __init__(self, space, given, kernels):
        self.space, self.X = space, space.domain
        self.given, self.kernels = [g for g, _ in given], [k for k, _ in kernels]
        self.map = fd.function(space.map, self.X)

    def __call__(self, program, f):
        return getattr(self, "op_" + program[0])(f, *program[1:])

    def op_f(self, f):
        return f

    def op_a(self, f, i):
        return self.given[i]

    def op_k(self, f, i):
        return self.kernels[i]

    def op_scale(self, f, c, e):
        return c * self(e, f)

    def op_point(self, f, name, e):
        e = self(e, f)
        if name == "square":
            return e**2
        if name == "ratio":
            return 1 / (2 + e * e)
        if name == "power":
            return (1 + e**2) ** 1.5
        return fd.sin(e) if name == "sin" else fd.exp(0.3 * e)

    def op_two(self, f, name, a, b):
        a, b = self(a, f), self(b, f)
        return a + b if name == "add" else a - b if name == "sub" else a * b

    def op_slope(self, f, a, b):
        return fd.dot(fd.nabla(self(a, f)), fd.nabla(self(b, f)))

    def op_laplacian(self, f, e):
        return fd.laplacian(self(e, f))

    def op_linearize(self, f, a, b):
        along = fd.nabla(self(b, f))
        return fd.compose(fd.linearize(self(a, f)), fd.identity(self.X), along)

    def op_transform(self, f, k, e):
        return self(k, f) @ self(e, f)

    def op_feedback(self, f, e, number):
        return self(e, f) * self(number, f)

    def op_outer(self, f, e):
        return self(e, f)(self.map)

    def op_zip(self, f, a, b):
        left, right = fd.split(fd.zip_functions(self(a, f), self(b, f)))
        return left * right

    def op_jvp(self, f, e, a):
        return fd.jvp(lambda g: self(e, g), (f,), (self(a, f),))[1]

    def op_vjp(self, f, e, a):
        return fd.vjp(lambda g: self(e, g), f)[1](self(a, f))[0]

    def op_grad(self, f, number):
        return fd.grad(lambda g: self(number, g))(f)

    def op_left(self, f, e):
        return fd.broadcast(self(e, f), (self.X, self.X), 0)

    def op_right(self, f, e):
        return fd.broadcast(self(e, f), (self.X, self.X), 1)

    def op_permute(self, f, e):
        return fd.permute(self(e, f), (1, 0))

    def op_over(self, f, e, i):
        return fd.integrate(self(e, f), i)

    def op_fix(self, f, e, i, node):
        return fd.partial(self(e, f), i, self.space.x[node])

    def op_diagonal(self, f, e):
        return fd.compose(self(e, f), fd.identity(self.X), fd.identity(self.X))

    def op_integral(self, f, e):
        return fd.integrate(self(e, f))

    def op_braket(self, f, a, b):
        return fd.braket(self(a, f), self(b, f))

    def op_at(self, f, e, node):
        return self(e, f)(self.space.x[node])

    def op_number(self, f, name, m, n):
        m, n = self(m, f), self(n, f)
        return m + n if name == "add" else m * n if name == "mul" else jnp.sin(m) * n


class Arrays:
    """Programs read as arithmetic of values (point,) and (point, point)."""

    def __init__(self, space, given, kernels):
        self.space, self.w = space, jnp.asarray(space.w)
        self.given, self.kernels = [u for _, u in given], [k for _, k in kernels]
        self.D = [jnp.asarray(d) for d in space.gradient]
        if space.lines:
            self.map = jnp.asarray(space.at(np.asarray(jax.vmap(space.map)(jnp.asarray(space.x)))))
        else:
            self.map = jnp.eye(space.n)

    __call__ = Operators.__call__
    op_f, op_a, op_k, op_scale = Operators.op_f, Operators.op_a, Operators.op_k, Operators.op_scale

    def op_point(self, u, name, e):
        return POINTWISE[name](self(e, u))

    def op_two(self, u, name, a, b):
        return BINARY[name](self(a, u), self(b, u))

    def op_slope(self, u, a, b):
        a, b = self(a, u), self(b, u)
        return sum((D @ a) * (D @ b) for D in self.D)

    op_linearize = op_slope

    def op_laplacian(self, u, e):
        return sum(D @ (D @ self(e, u)) for D in self.D)

    def op_transform(self, u, k, e):
        return self(k, u) @ (self.w * self(e, u))

    def op_feedback(self, u, e, number):
        return self(e, u) * self(number, u)

    def op_outer(self, u, e):
        return self.map @ self(e, u)

    def op_zip(self, u, a, b):
        return self(a, u) * self(b, u)

    def op_jvp(self, u, e, a):
        return jax.jvp(lambda v: self(e, v), (u,), (self(a, u),))[1]

    def op_vjp(self, u, e, a):
        return jax.vjp(lambda v: self(e, v), u)[1](self.w * self(a, u))[0] / self.w

    def op_grad(self, u, number):
        return jax.grad(lambda v: self(number, v))(u) / self.w

    def op_left(self, u, e):
        return jnp.broadcast_to(self(e, u)[:, None], (self.space.n, self.space.n))

    def op_right(self, u, e):
        return jnp.broadcast_to(self(e, u)[None, :], (self.space.n, self.space.n))

    def op_permute(self, u, e):
        return self(e, u).T

    def op_over(self, u, e, i):
        return jnp.tensordot(self.w, self(e, u), axes=((0,), (i,)))

    def op_fix(self, u, e, i, node):
        return jnp.take(self(e, u), node, axis=i)

    def op_diagonal(self, u, e):
        return jnp.diagonal(self(e, u))

    def op_integral(self, u, e):
        e = self(e, u)
        return self.w @ e if e.ndim == 1 else self.w @ e @ self.w

    def op_braket(self, u, a, b):
        return self.w @ (self(a, u) * self(b, u))

    def op_at(self, u, e, node):
        return self(e, u)[node]

    def op_number(self, u, name, m, n):
        return {"add": jnp.add, "mul": jnp.multiply, "sin": lambda a, b: jnp.sin(a) * b}[name](self(m, u), self(n, u))


# ---- random programs


class Writer:
    """Random programs that a space resolves; with each goes its degree as a polynomial."""

    def __init__(self, space, seed):
        self.space, self.rng = space, np.random.default_rng(seed)
        self.slopes = (
            0 if not space.gradient else 1 if space.vanishing == 1 else 2
        )  # derivatives that may still be taken
        self.outer = 1 if space.lines else 0

    def pick(self, options):
        names, weights = zip(*options, strict=True)
        return names[self.rng.choice(len(names), p=np.array(weights) / np.sum(weights))]

    def leaf(self):
        return (("f",), 3) if self.rng.random() < 0.7 else (("a", int(self.rng.integers(3))), 3)

    def function(self, depth, regular=False):
        """(program, degree). regular: no derivatives and compositions, so that gradients are ordinary functions."""
        if depth == 0:
            return self.leaf()
        one = lambda: self.function(depth - 1, regular)
        options = [("two", 3), ("scale", 1), ("transform", 2), ("feedback", 1.5), ("zip", 1), ("square", 1)]
        options += [("over", 1.5), ("fix", 0.7), ("diagonal", 0.7), ("jvp", 1)]
        if self.space.wild:
            options += [("sin", 1), ("exp", 1), ("ratio", 0.7), ("power", 0.7)]
        if not regular:
            options += [("vjp", 0.7), ("grad", 0.7)]
            options += [("slope", 2.5), ("linearize", 0.7)] * bool(self.slopes)
            options += [("laplacian", 0.7)] * (self.slopes > 1)
            options += [("outer", 1)] * bool(self.outer)
        name = self.pick(options)
        if name == "two":
            how = str(self.rng.choice(["add", "sub", "mul"]))
            (a, m), (b, n) = one(), one()
            return (name, how, a, b), m + n if how == "mul" else max(m, n)
        if name in ("sin", "exp", "ratio", "power", "square"):
            e, n = one()
            return ("point", name, e), 2 * n
        if name == "scale":
            e, n = one()
            return (name, float(self.rng.uniform(-1, 1.5)), e), n
        if name == "transform":
            return (name, self.pair(depth - 1, regular)[0], one()[0]), 3
        if name == "feedback":
            e, n = one()
            return (name, e, self.number(depth - 1, regular)), n
        if name == "zip":
            (a, m), (b, n) = one(), one()
            return (name, a, b), m + n
        if name == "over":
            e, n = self.pair(depth - 1, regular)
            return (name, e, int(self.rng.integers(2))), n
        if name == "fix":
            e, n = self.pair(depth - 1, regular)
            return (name, e, int(self.rng.integers(2)), int(self.rng.integers(self.space.n))), n
        if name == "diagonal":
            e, n = self.pair(depth - 1, regular)
            return (name, e), 2 * n
        if name == "jvp":
            e, n = one()
            return (name, e, ("a", int(self.rng.integers(3)))), n + 3
        if name == "vjp":
            e, n = self.function(depth - 1, True)
            return (name, e, ("a", int(self.rng.integers(3)))), n + 3
        if name == "grad":
            return (name, self.number(depth - 1, True)), 12
        if name == "outer":
            self.outer -= 1
            e, n = one()
            return (name, e), n
        self.slopes -= 1
        if name == "laplacian":
            self.slopes -= 1
            e, n = one()
            return (name, e), n
        (a, m), (b, n) = one(), one()
        return (name, a, b), m + n

    def pair(self, depth, regular):
        """A program of a function of two arguments."""
        if depth <= 0:
            return ("k", int(self.rng.integers(2))), 3
        name = self.pick([("k", 2), ("left", 1), ("right", 1), ("permute", 1), ("two", 2), ("square", 0.5)])
        if name == "k":
            return ("k", int(self.rng.integers(2))), 3
        if name in ("left", "right"):
            e, n = self.function(depth - 1, regular)
            return (name, e), n
        if name == "permute":
            e, n = self.pair(depth - 1, regular)
            return (name, e), n
        (a, m) = self.pair(depth - 1, regular)
        if name == "square":
            return ("point", "square", a), 2 * m
        (b, n) = self.pair(depth - 1, regular)
        return ("two", "mul", a, b), m + n

    def number(self, depth, regular=False):
        name = self.pick([("integral", 3), ("pair", 1), ("braket", 1), ("at", 0.7), ("number", 1.5 * (depth > 1))])
        if name == "pair":
            return ("integral", self.checked(self.pair, depth, regular))
        if name == "integral":
            return ("integral", self.checked(self.function, depth, regular))
        if name == "braket":
            return (name, self.checked(self.function, depth - 1, regular), self.checked(self.function, 1, regular))
        if name == "at":
            return (name, self.checked(self.function, depth, regular), int(self.rng.integers(self.space.n)))
        how = str(self.rng.choice(["add", "mul", "sin"]))
        return (name, how, self.number(depth - 1, regular), self.number(depth - 1, regular))

    def checked(self, make, depth, regular):
        """A program whose degree the quadrature can take."""
        while True:
            before = self.slopes, self.outer
            program, degree = make(max(depth, 0), regular)
            if self.space.degree is None or degree <= self.space.degree:
                return program
            self.slopes, self.outer = before
            depth = max(depth - 1, 0) if self.rng.random() < 0.3 else depth


def given(space, seed):
    """(three functions, two kernels), each with its values."""
    return [space.function(seed + 7 * i) for i in range(3)], [kernel(space, seed + 1000 + i) for i in range(2)]


def contains(program, *names):
    """True if an operation of one of these names is in the program."""
    if not isinstance(program, tuple):
        return False
    return program[0] in names or any(contains(p, *names) for p in program)
