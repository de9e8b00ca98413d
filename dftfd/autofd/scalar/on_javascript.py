"""Scalar programs as JavaScript: statements as in C, without types.

Functions keep the names they have in C; `ARITHMETIC` says what they are here.
"""

from typing import ClassVar

from dftfd.autofd.scalar.on_c import OnC, number_text

ARITHMETIC = """\
const {sqrt, cbrt, sin, cos, tan, sinh, cosh, asin, acos, atan, acosh, atanh, floor, ceil, pow, atan2} = Math;
const fabs = Math.abs, exp2 = x => 2**x, cube_root = Math.cbrt, is_number = Number.isFinite;
const exp_of = Math.exp, expm1_of = Math.expm1, log_of = Math.log, log1p_of = Math.log1p;
const tanh_of = Math.tanh, asinh_of = Math.asinh, INFINITY = Infinity, NAN = NaN;
const larger = (a, b) => a > b || a !== a ? a : b, smaller = (a, b) => a < b || a !== a ? a : b;
const sign_of = x => x > 0 ? 1 : x < 0 ? -1 : x;

/* erf by its series with positive terms, erfc beyond 2 by its continued fraction. */
function erf(x) {
  const a = fabs(x);
  if (!(a < 6)) return a === a ? sign_of(x) : x;
  let term = a, sum = a;
  for (let k = 1; term > 1e-17*sum; ++k) { term *= 2*a*a/(2*k + 1); sum += term; }
  return sign_of(x)*sum*exp_of(-a*a)*1.1283791670955126;
}
function erfc(x) {
  if (!(x > 2)) return 1 - erf(x);
  let tail = 0;
  for (let k = 200; k > 0; --k) tail = k/2/(x + tail);
  return exp_of(-x*x)*0.5641895835477563/(x + tail);
}
"""
"""exp and its kin are those of the browser, good to one or two units in the last place."""


class OnJavaScript(OnC):
    """Scalars are pieces of JavaScript."""

    language: ClassVar[str] = "JavaScript"
    types: ClassVar[tuple[str, str]] = ("", "")
    number_of_truth: ClassVar[str] = "Number({})"
    has_tables: ClassVar[bool] = False

    @staticmethod
    def _table(name, matrix) -> str:
        rows = ", ".join(f"[{', '.join(map(number_text, row))}]" for row in matrix)
        return f"const {name} = [{rows}];\n"

    @staticmethod
    def _product(table, shape, given, operands, found) -> list[str]:
        return [
            f"const {given} = [{', '.join(operands)}];",
            f"const {found} = {table}.map(row => row.reduce((sum, w, j) => sum + w*{given}[j], 0));",
        ]
