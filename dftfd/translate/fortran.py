"""The interface of exported C code for Fortran 2003 and later."""

import textwrap

from dftfd.autofd.scalar.on_c import number_text
from dftfd.translate.c_files import Exported, provenance


def fortran_module(exported: Exported) -> str:
    """The text of a module of the functional's name, with iso_c_binding."""
    name = exported.name
    notes = "".join(f"! {part}\n" for line in provenance(exported).splitlines() for part in _wrapped(line) or [""])
    parameters = [
        f"real(c_double) :: {p.name}({len(p.values)}) = [{', '.join(map(_number, p.values))}]"
        if p.is_list
        else f"real(c_double) :: {p.name} = {_number(p.values[0])}"
        for p in exported.parameters
    ] or ["real(c_double) :: unused = 0.0_c_double"]
    results = [f"type(c_ptr) :: {slot} = c_null_ptr" for slot in exported.slots]
    return f"""{notes}
module {name}
  use, intrinsic :: iso_c_binding
  implicit none

  ! The defaults stand in every new object.
  type, bind(c) :: {name}_parameters
{_lines(parameters)}  end type

  ! c_loc of the arrays that are wanted, laid out as (component, point); see {name}.h.
  type, bind(c) :: {name}_results
{_lines(results)}  end type

  interface
    ! 0; 1 for another number of spins than 1 and 2; 2 where an array is missing. c_null_ptr for what is not taken.
    integer(c_int) function {name}_evaluate(n_spin, n_points, rho, sigma, lapl, tau, &
        parameters, results) bind(c, name="{name}_evaluate")
      import
      integer(c_int), value :: n_spin
      integer(c_size_t), value :: n_points
      type(c_ptr), value :: rho, sigma, lapl, tau
      type({name}_parameters), intent(in) :: parameters
      type({name}_results), intent(in) :: results
    end function
  end interface
end module
"""


def _number(value: float) -> str:
    return number_text(value).strip("()") + "_c_double"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 110)


def _lines(statements) -> str:
    """Statements, continued where they are long."""
    lines = []
    for statement in statements:
        parts = textwrap.wrap(statement, 110, break_long_words=False, break_on_hyphens=False)
        lines += [f"    {part}{' &' if part is not parts[-1] else ''}\n" for part in parts]
    return "".join(lines)
