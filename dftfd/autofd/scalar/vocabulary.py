"""The operations that scalar code is made of, by the names that JAX gives them.

A release of JAX that splits or renames an operation is noticed by the table of tests that runs each of these in each
algebra. What is in none of the lists is kept whole, as a node `call`, or refused.
"""

UNARY = frozenset(
    """abs acos acosh asin asinh atan atanh bitcast_convert_type cbrt ceil convert_element_type cos cosh digamma erf
    erf_inv erfc exp exp2 expm1 floor integer_pow is_finite lgamma log log1p logistic neg not one_minus_square round
    rsqrt sign sin sinh sqrt square tan tanh""".split()
)
BINARY = frozenset(
    """add add_any and atan2 div eq ge gt le lt max min mul ne nextafter or pow rem shift_left shift_right_arithmetic
    shift_right_logical sub xor""".split()
)
ELEMENTWISE = UNARY | BINARY | {"clamp", "select_n"}
"""Of each entry on its own."""

LOGICAL = frozenset("and eq ge gt is_finite le lt ne not or xor".split())
"""Whose results are truth values, no numbers."""

EXACT = frozenset(
    "abs add add_any and div eq ge gt le lt max min mul ne neg not or select_n sign sqrt square sub".split()
)
"""What NumPy rounds as XLA does, so that constants may be folded without compiling anything."""

ALIASES = frozenset(["copy", "copy_p", "optimization_barrier", "stop_gradient"])
"""The operands themselves. stop_gradient is kept whole before derivatives are formed."""

LOOK_UPS = frozenset(["dynamic_slice", "gather"])
"""Moves at places that are constants; of a large constant array, one entry at a computed place."""

REDUCTIONS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}
"""Of the entries along axes: the operation that joins two."""

LINEAR = frozenset(
    """neg sub add add_any reshape broadcast_in_dim transpose reduce_sum cumsum squeeze expand_dims slice dynamic_slice
    dynamic_update_slice concatenate pad gather scatter scatter-add convert_element_type copy copy_p real imag complex
    conj rev select_n reduce_precision split stack unstack optimization_barrier""".split()
)
BILINEAR = frozenset(["mul", "dot_general", "conv_general_dilated"])
"""Of arrays: in all operands that are real or complex together, and in each of two."""

LOOPS = frozenset(["while", "scan", "cond"])
WITH_RULES = frozenset(["stop_gradient", "custom_jvp_call", "custom_vjp_call"])
"""Whole until derivatives are formed, by rules of their own."""

KNOWN = frozenset(
    ELEMENTWISE | ALIASES | LOOK_UPS | REDUCTIONS.keys() | LINEAR | BILINEAR | LOOPS | WITH_RULES,
).union("tile reduce_window_sum triangular_solve fft".split())
"""All names that are given a meaning."""

MOVES = LOOK_UPS | ALIASES.union(
    "broadcast_in_dim concatenate expand_dims iota reshape rev slice squeeze stack transpose".split()
)
"""What no number is changed by, of any type."""

ON_NUMBERS = (KNOWN - WITH_RULES).union(
    """argmax argmin clz cummax cummin cumprod jit population_count reduce_and reduce_or reduce_xor sort""".split()
)
"""What proofs carry out on numbers that are no float64, in which case it does not round."""

KEPT_APART = frozenset(["call", "entry", "look up"])
"""What scalar code may hold of arrays: an equation as it stands, one entry of its results, one of a table."""
