"""C99 of a functional: a header, kernels of each order, a driver in libxc's layout, a CMake file, a module for Fortran.

A kernel computes all results of an order on a block of points, each input and each result a row of the block: one loop
without branches. The driver brings the variables of points, as libxc lays them out, into rows and the results back.
"""

import textwrap
from dataclasses import dataclass
from functools import cached_property

from dftfd.errors import one_line
from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import holders
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.parameters import parameter_text
from dftfd.runtime.version import VERSION
from dftfd.translate.c_text import ARITHMETIC, DRIVER, EVALUATE
from dftfd.translate.on_c import Piece, number_text, statements_of
from dftfd.translate.programs import Parameter, SpinPrograms, changeable_parameters
from dftfd.xc.channels import FAMILIES, MEMBERS, VARIABLES, family_of, named_components

BLOCK = 64
"""Points of a block: few enough that its rows stay in the nearest cache."""

GROUP = 8
"""Points that are computed together: a loop of a known length becomes vector code without a remainder."""

SPINS = {1: "unpolarised", 2: "polarised"}


@dataclass(frozen=True)
class Exported:
    """A functional's semilocal energy as programs, under a name that C takes."""

    name: str
    functional: Functional
    order: int

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return changeable_parameters(self.semilocal)

    @cached_property
    def semilocal(self) -> Functional:
        return self.functional.semilocal_part

    @cached_property
    def spins(self) -> dict[int, SpinPrograms]:
        return {n_spin: SpinPrograms(self.semilocal, n_spin, self.parameters) for n_spin in SPINS}

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Those of rho, sigma, lapl and tau that occur; rho always does."""
        found = {"rho", *(f for programs in self.spins.values() for f in programs.families)}
        return tuple(f for f in FAMILIES if f in found)

    @cached_property
    def slots(self) -> dict[str, int]:
        """Names of the results and the order of each: e, zk (the energy per volume, per particle), vrho, ..."""
        named = {name: k for k in range(1, self.order + 1) for name in named_components(1, self.families, k)}
        return {"e": 0, "zk": 0, **named}

    def components(self, n_spin: int) -> dict[str, list[tuple[int, ...]]]:
        """The derivatives in each result, in their order."""
        orders = range(1, self.order + 1)
        named = {k: v for order in orders for k, v in named_components(n_spin, self.families, order).items()}
        return {"e": [()], "zk": [()], **named}


def c_files(exported: Exported) -> dict[str, str]:
    """Texts of the files by their names, but for the test."""
    name = exported.name
    files = {
        f"{name}.h": header(exported),
        f"{name}_kernels.h": kernels_header(exported),
        f"{name}.c": driver(exported),
    }
    for order in range(exported.order + 1):
        files[f"{name}_order{order}.c"] = kernels_file(exported, order)
    files["CMakeLists.txt"] = _cmake(exported)
    return files


# ---- what it is


def provenance(exported: Exported) -> str:
    """Formula, parameters, sources, version and fingerprint, as lines."""
    functional = exported.functional
    lines = [f"{functional.name}, exported by dftfd {VERSION}", f"fingerprint: {program_fingerprint(functional)}", ""]
    for coefficient, term in functional.terms:
        of_term = ", ".join(f"{k} = {parameter_text(v)}" for k, v in term.parameters.items())
        source = f", doi:{term.doi}" if term.doi else ""
        nonlocal_ = "  (a double integral: in nonlocal/, where C has a form of it)" if term.is_nonlocal else ""
        lines.append(f"{float(coefficient)!r} * {term.name}({of_term}){source}{nonlocal_}")
    for omega, fraction in functional.exact_exchange:
        operator = f"erf({float(omega)!r} r)/r" if omega else "1/r"
        operator += ", omega as in the formula" if holders(functional.terms, omega) else ""
        lines.append(f"{float(fraction)!r} * exact exchange with {operator}: for the calling program to add")
    if functional.pt2:
        os, ss = functional.pt2
        lines.append(f"second-order perturbation theory, {os!r} opposite, {ss!r} equal spins: for the calling program")
    if functional.dispersion:
        lines.append(f"dispersion correction {' '.join(functional.dispersion)}: for the calling program to add")
    return "\n".join(lines)


def comment(text: str) -> str:
    """A block comment in C."""
    lines = [
        wrapped
        for line in text.replace("*/", "* /").replace("/*", "/ *").splitlines()
        for wrapped in textwrap.wrap(line, 112) or [""]
    ]
    return "/* " + "\n   ".join(lines).replace("   \n", "\n") + " */\n"


def header(exported: Exported) -> str:
    name, guard = exported.name, f"{exported.name.upper()}_H"
    members = "".join(f"    double {p.name}{_size(p)};\n" for p in exported.parameters) or "    double unused;\n"
    of_order = [[f"*{s}" for s, k in exported.slots.items() if k == order] for order in range(exported.order + 1)]
    results = "".join(filled(f"double {', '.join(names)};") for names in of_order)
    shapes = "\n".join(
        f"   {', '.join(VARIABLES[2][k] for k in MEMBERS[2][f])}".ljust(40) + f"of two spins, {f} of one"
        for f in exported.families
    )
    return (
        comment(provenance(exported))
        + f"""
#ifndef {guard}
#define {guard}

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {name.upper()}_ORDER {exported.order}

/* Parameters that may be changed. */
typedef struct {{
{members}}} {name}_parameters;

extern const {name}_parameters {name}_defaults;

/* Arrays of results, laid out as libxc has them; NULL for what is not wanted.
   e: energy per volume [hartree/bohr^3].   zk: energy per particle [hartree].
   The others are derivatives of the energy per volume, v2rhosigma for instance d2e/(drho dsigma). */
typedef struct {{
{results}}} {name}_results;

/* Energy and derivatives at n_points points of n_spin (1 or 2) spins, in atomic units. Each point's variables stand
   together:
{shapes}
   sigma_ab = grad rho_a . grad rho_b, lapl the Laplacian of rho, tau = 1/2 sum |grad phi|^2. Arrays of what the
   functional does not take may be NULL. parameters: NULL for the defaults.
   Returns 0; 1 for another n_spin; 2 where an array is missing. It may be called from several threads at once. */
int {name}_evaluate(int n_spin, size_t n_points, const double *rho, const double *sigma, const double *lapl,
    const double *tau, const {name}_parameters *parameters, const {name}_results *results);

#ifdef __cplusplus
}}
#endif

#endif
"""
    )


def _size(parameter: Parameter) -> str:
    return f"[{len(parameter.values)}]" if parameter.is_list else ""


# ---- kernels


def kernels_header(exported: Exported) -> str:
    name, guard = exported.name, f"{exported.name.upper()}_KERNELS_H"
    prototypes = "\n".join(
        f"kernel {kernel_name(exported, n_spin, order)};" for n_spin in SPINS for order in range(exported.order + 1)
    )
    return f"""\
/* For the files of {name} alone. */

#ifndef {guard}
#define {guard}

#include "{name}.h"

{ARITHMETIC}
#define BLOCK {BLOCK}
#define GROUP {GROUP}

#ifdef __cplusplus
extern "C" {{
#endif

/* Results y, rows of BLOCK entries, of variables x, rows too, at m points. */
typedef void kernel(int m, const double *RESTRICT x, const {name}_parameters *RESTRICT parameters,
                    const double *RESTRICT seeds, double *RESTRICT y);

{prototypes}

#ifdef __cplusplus
}}
#endif

#endif
"""


def kernel_name(exported: Exported, n_spin: int, order: int) -> str:
    return f"{exported.name}_{SPINS[n_spin]}_{order}"


def kernels_file(exported: Exported, order: int) -> str:
    """Both spins' kernels of one order."""
    tables: dict[str, str] = {}
    kernels = "\n\n".join(_kernel(exported, n_spin, order, tables) for n_spin in SPINS)
    weights = "".join(f"{table}\n" for table in tables.values())
    return comment(provenance(exported)) + f'\n#include "{exported.name}_kernels.h"\n\n{weights}{kernels}'


def _kernel(exported: Exported, n_spin: int, order: int, tables: dict[str, str]) -> str:
    programs = exported.spins[n_spin]
    program = programs.program(order)
    variables = [VARIABLES[n_spin][k] for k in programs.used]
    numbers = [
        f"parameters->{p.name}[{k}]" if p.is_list else f"parameters->{p.name}"
        for p in exported.parameters
        for k in range(len(p.values))
    ]
    seeds = [f"seeds[{k}]" for k in range(program.n_inputs - len(variables) - len(numbers))]
    inputs = [*(Piece(v) for v in variables), *(Piece(text, uniform=True) for text in (*numbers, *seeds))]
    written, outputs = statements_of(program, inputs)
    tables |= written.tables
    depends = [program.depends_on({k}) for k in range(program.n_inputs)]
    rows = [f"const double {v} = x[{k}*BLOCK + p];" for k, v in enumerate(variables) if depends[k]]
    rows += [*written.inside, *(f"y[{k}*BLOCK + p] = {text};" for k, text in enumerate(outputs))]
    unused = [
        name
        for name, first, last in (
            ("x", 0, len(variables)),
            ("parameters", len(variables), len(variables) + len(numbers)),
            ("seeds", len(variables) + len(numbers), program.n_inputs),
        )
        if not any(depends[first:last])
    ]
    before = [f"(void){name};" for name in unused] + written.before
    return (
        f"void {kernel_name(exported, n_spin, order)}(int m, const double *RESTRICT x,\n"
        f"    const {exported.name}_parameters *RESTRICT parameters, const double *RESTRICT seeds,\n"
        "    double *RESTRICT y)\n"
        "{\n"
        + indented(before, 4)
        + "    for (int group = 0; group < m; group += GROUP)\n"
        + "    for (int p = group; p < group + GROUP; ++p) {\n"
        + indented(rows, 8)
        + "    }\n}\n"
    )


def indented(statements, indent: int) -> str:
    """Statements on lines of at most 120 characters where they can be broken."""
    first, rest = " " * indent, " " * (indent + 4)
    wrap = textwrap.TextWrapper(
        120, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return "".join(f"{wrap.fill(s)}\n" if len(s) + indent > 120 else f"{first}{s}\n" for s in statements)


# ---- driver


def driver(exported: Exported) -> str:
    name = exported.name
    slots = ", ".join(f"results->{slot}" for slot in exported.slots)
    tables = "\n".join(_tables(exported, n_spin, order) for n_spin in SPINS for order in range(exported.order + 1))
    text = EVALUATE.replace("NAME", name).replace("PARAMS", f"{name}_parameters")
    text = text.replace("{SLOTS}", "{\n        " + "\n        ".join(textwrap.wrap(slots, 110)) + "}")
    return (
        comment(provenance(exported))
        + f'\n#include "{name}_kernels.h"\n\n{_defaults(exported)}\n{DRIVER}\n'
        + _sizes(exported)
        + f"\n{tables}\n{_plans(exported)}\n{_sources(exported)}\n{text}"
    )


def _defaults(exported: Exported) -> str:
    values = [", ".join(map(number_text, p.values)) for p in exported.parameters]
    values = [f"{{{v}}}" if p.is_list else v for p, v in zip(exported.parameters, values, strict=True)]
    return f"const {exported.name}_parameters {exported.name}_defaults = {{{', '.join(values) or '0.0'}}};\n"


def _sizes(exported: Exported) -> str:
    programs = [(s.n, s.program(k)) for s in exported.spins.values() for k in range(exported.order + 1)]
    most_variables = max(n for n, _ in programs)
    return (
        f"#define N_SLOTS {len(exported.slots)}\n#define MOST_VARIABLES {most_variables}\n"
        f"#define MOST_ROWS {max(len(p.outputs) for _, p in programs)}\n"
        f"#define MOST_SEEDS {max(0, exported.order - 1) * most_variables}\n\n"
        f"static const short slot_orders[] = {{{', '.join(map(str, exported.slots.values()))}}};\n"
    )


def _tables(exported: Exported, n_spin: int, order: int) -> str:
    """Lanes and places of one order's kernel."""
    rows = {row.derivative: row for row in exported.spins[n_spin].rows(order)}
    lanes = sorted({row.seeds for row in rows.values()})
    places = []
    components = {s: c for s, c in exported.components(n_spin).items() if exported.slots[s] <= order}
    for slot, derivatives in components.items():
        number = list(exported.slots).index(slot)
        for offset, derivative in enumerate(derivatives):
            row = rows.get(derivative)
            lane, out = (lanes.index(row.seeds), row.row) if row else (0, -1)
            places.append((lane, number, len(derivatives), offset, out))
    suffix = f"{SPINS[n_spin]}_{order}"
    entries = ", ".join(f"{{{s}, {stride}, {o}, {lane}, {row}}}" for lane, s, stride, o, row in sorted(places))
    text = f"static const place places_{suffix}[] = {{\n{filled(entries)}}};\n"
    if lanes[0]:
        seeds = ", ".join(str(k) for lane in lanes for k in lane)
        text += f"static const short lanes_{suffix}[] = {{\n{filled(seeds)}}};\n"
    return text


def filled(text: str) -> str:
    """A long list on several lines."""
    return textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="    ") + "\n"


def _plans(exported: Exported) -> str:
    rows = []
    for n_spin, programs in exported.spins.items():
        of_spin = []
        for order in range(exported.order + 1):
            lanes = {row.seeds for row in programs.rows(order)}
            levels = len(next(iter(lanes)))
            suffix = f"{SPINS[n_spin]}_{order}"
            counts = f"(int)(sizeof places_{suffix}/sizeof *places_{suffix}), {len(lanes)}, {levels}"
            table = f"lanes_{suffix}" if levels else "NULL"
            of_spin.append(f"{{{kernel_name(exported, n_spin, order)}, places_{suffix}, {counts}, {table}}}")
        rows.append("    {" + ",\n     ".join(of_spin) + "}")
    return f"static const plan plans[2][{exported.order + 1}] = {{\n" + ",\n".join(rows) + "};\n"


def _sources(exported: Exported) -> str:
    rows = []
    for n_spin, programs in exported.spins.items():
        of_spin = []
        for k in programs.used:
            family = family_of(k, n_spin)
            members = MEMBERS[n_spin][family]
            of_spin.append(f"{{{FAMILIES.index(family)}, {len(members)}, {members.index(k)}}}")
        rows.append("    {" + ", ".join(of_spin) + "}")
    counts = ", ".join(str(p.n) for p in exported.spins.values())
    return (
        f"static const int variable_counts[2] = {{{counts}}};\n"
        "static const source sources[2][MOST_VARIABLES] = {\n" + ",\n".join(rows) + "};\n"
    )


def _cmake(exported: Exported) -> str:
    name = exported.name
    sources = " ".join([f"{name}.c", *(f"{name}_order{k}.c" for k in range(exported.order + 1))])
    return f"""\
# {one_line(exported.functional.name)}, exported by dftfd {VERSION}
cmake_minimum_required(VERSION 3.10)
project({name} C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 99)

# So that loops become vector code; no result depends on it.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fno-math-errno -fno-trapping-math -fno-tree-pre -fno-thread-jumps)
elseif(CMAKE_C_COMPILER_ID MATCHES "Clang")
  add_compile_options(-fno-math-errno)
endif()

add_library({name} {sources})
set_target_properties({name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name} PUBLIC m)

enable_testing()
add_executable({name}_test {name}_test.c)
target_link_libraries({name}_test {name})
add_test({name} {name}_test)
"""


def fortran_module(exported: Exported) -> str:
    """The text of a module of the functional's name, with iso_c_binding."""
    name = exported.name
    parts = [part for line in provenance(exported).splitlines() for part in textwrap.wrap(line, 110) or [""]]
    notes = "".join(f"! {part}\n" for part in parts)
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


def _lines(statements) -> str:
    """Statements, continued where they are long."""
    lines = []
    for statement in statements:
        parts = textwrap.wrap(statement, 110, break_long_words=False, break_on_hyphens=False)
        lines += [f"    {part}{' &' if part is not parts[-1] else ''}\n" for part in parts]
    return "".join(lines)
