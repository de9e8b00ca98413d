"""What mutations.py makes wrong: lines of the code, each with the tests that have to notice."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """One replacement in one file of the package.

    net: the tests that have to notice, a name in NETS.   file: below dftfd.   old: stands there once.
    """

    net: str
    file: str
    old: str
    new: str


NETS = {
    "formulas": (
        "tests/test_lowered.py",
        "tests/test_lowered_random.py",
        "tests/test_fingerprint.py",
        "tests/test_vocabulary.py",
    ),
    "operators": (
        "tests/test_autofd_net.py",
        "tests/test_autofd_adjoints.py",
        "tests/test_autofd_measures.py",
        "tests/test_autofd_inverse_dirac.py",
    ),
    "bounds": ("tests/test_bounds.py",),
}


def _of(net: str, file: str, *pairs: tuple[str, str]) -> list[Mutation]:
    return [Mutation(net, file, old, new) for old, new in pairs]


_SCALAR = "autofd/scalar"
_OPERATORS = "autofd/operators"

MUTATIONS = (
    *_of(  # rules that make formulas shorter
        "formulas",
        f"{_SCALAR}/simplify.py",
        ("else n.product(args[0], n.reciprocal(args[1]))", "else n.product(args[1], n.reciprocal(args[0]))"),
        ("number = n.joined(operator.truediv, 1.0, node.value) if", "number = node.value if"),
        ('{**params, "y": -params["y"]}', '{**params, "y": params["y"]}'),
        ('if params["y"] == -1 else', 'if params["y"] == -2 else'),
        ("if n.is_value(i, 0):", "if n.is_value(i, 1):"),
        (
            "if args[0] == args[1]:\n        return n.number(0.0)",
            "if args[0] == args[1]:\n        return n.number(1.0)",
        ),
        ("return args[0] if n.is_value(args[1], 0) else None", "return args[0] if n.is_value(args[0], 0) else None"),
        ('return args[0] if params["y"] == 1 else', 'return args[0] if params["y"] == 2 else'),
        ("return n.number(-node.value)", "return n.number(node.value)"),
        ("branches[int(n.nodes[predicate].value)]", "branches[1 - int(n.nodes[predicate].value)]"),
        ("if len(set(branches)) == 1:", "if len(set(branches)) >= 1:"),
        ("n.joined(operator.truediv, a, scale)", "n.joined(operator.mul, a, scale)"),
        ('n.product(n.number(scale), n.plain("select_n"', 'n.product(n.number(1.0), n.plain("select_n"'),
        ("!= len(branches) - 1:", "> len(branches) - 1:"),
        ("rest = y if x is None else x if y is None", "rest = x if x is None else x if y is None"),
        ('if n.nodes[y].op == "div" and n.nodes[y].args[1] == x:', 'if n.nodes[y].op == "div":'),
        ("else n.joined(operator.truediv, 1.0, number)", "else number"),
        ("n.joined(operator.add, a.value, b.value)", "n.joined(operator.sub, a.value, b.value)"),
        ("n.product(n.number(2.0), args[0]) if", "n.product(n.number(1.0), args[0]) if"),
        (
            '"max": lambda n, args, params: args[0] if args[0] == args[1] else None',
            '"max": lambda n, args, params: args[0]',
        ),
        (
            '"min": lambda n, args, params: args[0] if args[0] == args[1] else None',
            '"min": lambda n, args, params: args[0]',
        ),
        ('"square": lambda n, args, params: n.product(args[0], args[0])', '"square": lambda n, args, params: args[0]'),
        (".value), node.args[1 - k]", ".value), node.args[k]"),
    ),
    *_of(  # derivatives of formulas
        "formulas",
        f"{_SCALAR}/derive.py",
        ('node.code.name == "while"', 'node.code.name == "whale"'),
        ("*new.outputs(), *derivatives[1:]]", "*new.outputs(), *derivatives[:-1]]"),
        ("enumerate(new.inputs[program.n_inputs :])", "enumerate(new.inputs[program.n_inputs :][::-1])"),
    ),
    *_of(
        "formulas",
        f"{_SCALAR}/derive.py",
        ("{self._of.outputs[0]: self.number(1.0)}", "{self._of.outputs[0]: self.number(2.0)}"),
    ),
    *_of(  # which operations are the same
        "formulas",
        f"{_SCALAR}/keys.py",
        ("rule = self.rule(eqn) if known and name in CUSTOM else ()", "rule = ()"),
        ("params = tuple((k, self.value(v)) for k, v in sorted(params.items()))", "params = ()"),
        ('return ("array", array.shape, array.dtype.str, content)', 'return ("array", array.shape, array.dtype.str)'),
        ('return ("array", array.shape, array.dtype.str, content)', 'return ("array", array.dtype.str, content)'),
        (
            'return ("number", self.array(np.asarray(variable.val, dtype=type_of_array(variable).dtype)))',
            'return ("number",)',
        ),
        (
            "(self.operation(eqn.primitive), operands, params, rule, results)",
            "(self.operation(eqn.primitive), params, rule, results)",
        ),
        ("*rows, *(self.variable(v, names) for v in program.jaxpr.outvars))", "*rows)"),
        ("names.setdefault(variable, len(names))", "names.setdefault(variable, 0)"),
        ("return (type(value).__name__, value)", "return (type(value).__name__,)"),
        ("((self.value(k), self.value(v)) for k, v in value.items())", "(self.value(k) for k, v in value.items())"),
        ("return (type(value).__qualname__, value.name)", "return (type(value).__qualname__,)"),
        ("hashlib.blake2b(content,", "hashlib.blake2b(content[:100],"),
        ("return (Identity(value.__code__), _origin(value.__defaults__), cells)", "return (Identity(value.__code__),)"),
        (
            "if str(value.__module__).partition",
            'return ("function", Identity(_origin))\n        if str(value.__module__).partition',
        ),
        ("return _origin(value.val)", 'return "static"'),
        ("return (primitive.name, Identity(primitive))", 'return ("operation",)'),
        ("_RULE_DEPTH = 3", "_RULE_DEPTH = 0"),
    ),
    *_of(
        "formulas",
        f"{_SCALAR}/program.py",
        (
            "return self.op, self.value, self.real, value_key(self.params) if self.params else ()",
            "return self.op, self.value, self.real",
        ),
        ("self.value.dtype.str, self.value.tobytes()", "self.value.dtype.str"),
    ),
    *_of(  # from programs of JAX to formulas
        "formulas",
        f"{_SCALAR}/reader.py",
        (
            "value_key((eqn.primitive.name, self.params, shapes, table.values))",
            "value_key((eqn.primitive.name, shapes, table.values))",
        ),
        (
            "value_key((eqn.primitive.name, self.params, shapes, table.values))",
            "value_key((eqn.primitive.name, self.params, shapes))",
        ),
        (
            "return equation_key(self.eqn), value_key([self.tables.get(v) for v in self.operands])",
            "return equation_key(self.eqn)",
        ),
        ('reader.reduced(products, (3,), "add")', 'reader.reduced(products, (3,), "max")'),
        ("min(max(int(p), 0), n - size)", "int(p)"),
        ('if "fill_value" in params:', "if not params:"),
        ("reader.sum(int(total[place]), int(element))", "int(element)"),
        ('{"result": result, "index": k}', '{"result": 0, "index": k}'),
        ("np.flip(array, params", "np.array(array) if array.ndim else np.flip(array, params"),
        ("vocabulary.REDUCTIONS[eqn.primitive.name])]", '"add")]'),
    ),
    *_of("operators", f"{_OPERATORS}/integrate.py", ("if factor != 1.0:", "if False:")),
    *_of(
        "operators",
        f"{_OPERATORS}/broadcast.py",
        (
            "return [permute(reduced, np.argsort(np.argsort(kept)))]",
            "return [2.0 * permute(reduced, np.argsort(np.argsort(kept)))]",
        ),
        (
            'return [permute(cotangent, np.argsort(node.static["permutation"]))]',
            'return [2.0 * permute(cotangent, np.argsort(node.static["permutation"]))]',
        ),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/compose.py",
        ("else [compose(d_outer, *inner)]", "else [2.0 * compose(d_outer, *inner)]"),
        (
            "terms.append(outer.operator.along(outer, inner, linear))",
            "terms.append(2.0 * outer.operator.along(outer, inner, linear))",
        ),
        ("return rule(position, inner, change)", "return 2.0 * rule(position, inner, change)"),
        (
            "terms.append(compose(op.pushforward(outer, changed),",
            "terms.append(2.0 * compose(op.pushforward(outer, changed),",
        ),
        (
            "pulled = compose(op.pullback(outer, wanted), *inner, cotangent)",
            "pulled = compose(op.pullback(outer, wanted), *inner, 2.0 * cotangent)",
        ),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/nabla.py",
        ("inside = -divergence(ct, argnum, mode)\n", "inside = divergence(ct, argnum, mode)\n"),
        ("inside = -divergence(ct * w, argnum, mode) / w", "inside = -divergence(ct, argnum, mode)"),
        ("(sign * w)", "(2.0 * sign * w)"),
        (
            "((domain.extent.high, 1.0), (domain.extent.low, -1.0))",
            "((domain.extent.high, 1.0), (domain.extent.low, 1.0))",
        ),
        ("return False in _differentiated(f, argnum)", "return False"),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/partial.py",
        ("return [op.dirac(cotangent, node", "return [op.dirac(2.0 * cotangent, node"),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/dirac.py",
        (
            'return [op.partial(cotangent, node.static["argnums"], node.arrays)]',
            'return [2.0 * op.partial(cotangent, node.static["argnums"], node.arrays)]',
        ),
        ("return [drawn, *", "return [2.0 * drawn, *"),
        ("return node.replace(operands=[values[0], *", "return node.replace(operands=[2.0 * values[0], *"),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/linearize.py",
        (
            "total = sum_of_transposed_gradients(moments, node.static",
            "total = 2.0 * sum_of_transposed_gradients(moments, node.static",
        ),
        (
            "return sum_of_transposed_gradients(moments, argnums)",
            "return 2.0 * sum_of_transposed_gradients(moments, argnums)",
        ),
        (
            "return op.compose(pushforward(f, argnums), *inner[:count], *changes.values())",
            "return 2.0 * op.compose(pushforward(f, argnums), *inner[:count], *changes.values())",
        ),
        ("*inner[:count], cotangent)", "*inner[:count], 2.0 * cotangent)"),
        (
            "return op.compose(node, *inner[:-1], *changes.values())",
            "return 2.0 * op.compose(node, *inner[:-1], *changes.values())",
        ),
        ("*_entries(cotangent, argnums))", "*_entries(2.0 * cotangent, argnums))"),
        ("return [(given[0], direction)", "return [(2.0 * given[0], direction)"),
    ),
    *_of(
        "operators",
        f"{_OPERATORS}/linear_transpose.py",
        (
            'return linear_transpose(ct, last, domain, "hilbert-schmidt")',
            'return 2.0 * linear_transpose(ct, last, domain, "hilbert-schmidt")',
        ),
        (
            "return op.transport(op.identity(ct.domains[0]), (ct,), (domain,))",
            "return 2.0 * op.transport(op.identity(ct.domains[0]), (ct,), (domain,))",
        ),
        (
            "N = op.integrate_over(op.outer_product(ct, y), (last,))",
            "N = 2.0 * op.integrate_over(op.outer_product(ct, y), (last,))",
        ),
    ),
    *_of(  # what is left out
        "bounds",
        "libcint/gto.py",
        ("r = np.maximum(d, np.sqrt(powers / (2.0 * a)))", "r = d + 0.0 * powers"),
        ("r = np.maximum(d, np.sqrt(powers / (2.0 * a)))", "r = np.maximum(d, np.sqrt(powers / (4.0 * a)))"),
        ("for m in range(n // 2 + 1):", "for m in range(1):"),
        ("slopes[i] * ways * 2.0 ** (n - 2 * m)", "slopes[i] * 2.0 ** (n - 2 * m)"),
        ("return np.max(bounds, axis=(0, 1))", "return np.max(bounds[:1], axis=(0, 1))"),
        ("range(min(k, l) + 1)", "range(1)"),
        ("ladder) < cutoff)", "ladder) < 4.0 * cutoff)"),
    ),
)
