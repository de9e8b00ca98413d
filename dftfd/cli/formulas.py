"""The commands check, audit, show, prove, read, export and workbench: what a functional is, and whether it is right."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import (
    CHECK_FAILED,
    Debug,
    Verbose,
    app,
    at_work,
    given_options,
    messages,
    refuse,
    refuse_existing,
)
from dftfd.cli.option_types import functional_named
from dftfd.cli.terminal import say, warn
from dftfd.errors import InputError
from dftfd.runtime.files import require_ending, write_text

JsonOut = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Functional to compare with libxc; FILE.py:NAME for one in a file.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare only the energy density and its derivatives (seconds).")
    ] = False,
    values: Annotated[
        Path | None, typer.Option(help="Table of points with your own values, to compare with dftfd's.")
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Allowed error of --values; default: 1e-10.")] = None,
    json: JsonOut = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compare a functional with libxc, or with your values.

    Energy density and derivatives, potential and matrix; exit code 1 if they differ.
    """
    from dftfd.verify.check import check as check_functional

    against = "libxc" if values is None else values
    with messages(verbose, debug), at_work(f"comparing {name} with {against}"):
        report = check_functional(functional_named(name), not quick, values=values, tolerance=tolerance)
    _print(report, json)


@app.command()
def audit(
    target: Annotated[
        str,
        typer.Argument(help="Functional, also FILE.py:NAME, or module:function, FILE.py:NAME of PySCF's kind."),
    ],
    libxc: Annotated[bool, typer.Option("--libxc", help="Audit libxc's own code of this name.")] = False,
    xctype: Annotated[str, typer.Option(help="LDA, GGA or MGGA: what the function takes.")] = "GGA",
    reference: Annotated[str | None, typer.Option(help="Functional that the target should equal.")] = None,
    json: JsonOut = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Look for mistakes in the derivatives of a functional.

    Ours, libxc's or anybody's; exit code 1 where there are some.
    """
    from dftfd.verify.audit import audit as audit_target
    from dftfd.verify.audit import import_target

    is_code = (
        (":" in target or target.lower().endswith(".mpl"))
        and not target.lower().startswith("libxc:")
        and "(" not in target
    )
    with messages(verbose, debug), at_work(f"auditing {target}"):
        what = import_target(target) if is_code else functional_named(target)
        report = audit_target(what, xctype=xctype, reference=reference and functional_named(reference), libxc=libxc)
    _print(report, json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc; FILE.py:NAME for one in a file.")],
    plot: Annotated[Path | None, typer.Option(help="Write the enhancement factor as a picture (needs plots).")] = None,
    compare: Annotated[str | None, typer.Option(help="Add another functional to the picture, in dashed lines.")] = None,
    surface: Annotated[bool, typer.Option("--surface", help="Add the factor over s and alpha to the picture.")] = False,
    potential: Annotated[
        bool, typer.Option("--potential", help="Add the potential of a helium-like density to the picture.")
    ] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Also decide the local conditions by proof.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the formulas as LaTeX instead (needs SymPy).")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Show what a functional is and which conditions it meets."""
    from dftfd.runtime.files import require_matplotlib
    from dftfd.verify.report_card import report_card

    if plot is None and (compare is not None or surface or potential):
        raise InputError("--compare, --surface and --potential are about the picture; say --plot FILE.png.")
    if plot is not None:
        require_matplotlib()

    if latex:
        from dftfd.translate.in_symbols import in_symbols

        with messages(verbose, debug):
            for term in in_symbols(functional_named(name)):
                print(term.latex)
        return
    with messages(verbose, debug):
        with at_work(f"testing {name}"):
            card = report_card(functional_named(name))
        if prove:
            from dftfd.verify.proof_report import with_proofs

            with at_work(f"proving conditions of {name}"):
                card = with_proofs(card)
        say(card)
        if plot is not None:
            card.plot(plot, functional_named(compare), surface, potential)


@app.command()
def prove(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc; FILE.py:NAME for one in a file.")],
    condition: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition, may be repeated: ec_nonpositive, ec_scaling, uc_monotone, lieb_oxford, "
            "lieb_oxford_exc, tc_upper, tc_conjecture, ex_nonpositive, ex_bounded, ex_two_electrons. Else all."
        ),
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="VARIABLE=FROM:TO, as zeta=0:1; may be repeated.")] = None,
    boxes: Annotated[
        int, typer.Option(help="Maximum number of boxes; beyond it, the outcome is undecided.")
    ] = 2_000_000,
    recheck: Annotated[
        float | None, typer.Option(help="Recheck proofs with Arb, at most this many seconds each.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the certificate (of one condition) as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the map (of one condition) as a picture.")] = None,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Prove exact conditions, or find counterexamples.

    Local conditions, for all points of a domain.
    """
    from dftfd.verify.proof_report import prove_and_report

    if save is not None:
        require_ending(save, ".json")
    with messages(verbose, debug):
        if not prove_and_report(functional_named(name), condition, domain, boxes, recheck, save, plot, say, at_work):
            raise typer.Exit(CHECK_FAILED)


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; created if missing.")],
    order: Annotated[int, typer.Option(help="Order of the highest derivatives, 0 to 4.")] = 4,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Write a functional and its derivatives as C."""
    from dftfd.translate.exporting import export as export_functional

    with messages(verbose, debug), at_work(f"deriving and writing {name}"):
        paths = export_functional(functional_named(name), folder, order, overwrite)
    for path in paths:
        say(path)


@app.command()
def workbench(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc.")],
    other: Annotated[str | None, typer.Argument(help="Second functional, for comparison.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")] = Path("workbench.html"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Write a page with sliders for the parameters of a functional.

    There it is evaluated while parameters are moved; the page needs no network.
    """
    from dftfd.interactive.workbench import workbench as page_of

    with messages(verbose, debug):
        refuse_existing([output], overwrite, ".html")
        with at_work("translating the functional"):
            page = page_of(functional_named(name), None if other is None else functional_named(other))
        page.write(output, overwrite)
    say(f"{output}: {page}")


@app.command()
def oracle(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A formula, as gga_x_pbe; with --at any functional. Without it, all are listed.")
    ] = "",
    points: Annotated[
        str, typer.Option(help="Kind of points: regular, polarised, extreme, below, one spin.")
    ] = "regular",
    at: Annotated[Path | None, typer.Option(help="Your own points, in a table as for `dftfd check --values`.")] = None,
    order: Annotated[int, typer.Option(min=0, max=3, help="Highest order of the derivatives of --at.")] = 2,
    digits: Annotated[
        int | None, typer.Option(min=1, max=50, help="Digits to print of --at; default: those of float64.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table to this file (.csv).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Print energies and derivatives computed in 150 digits.

    A table of points and values, for `dftfd check --values` or other programs.
    """
    given = given_options(context)
    if at is None:
        refuse(given, {"order", "digits"}, "belongs to --at FILE, points of your own")
    else:
        refuse(given, {"points"}, "names stored points; --at FILE has its own")
    if at is None and not name:
        from dftfd.verify.oracle import oracle_names

        print("\n".join(oracle_names()))
        return
    refuse_existing([output] if output else [], overwrite, ".csv")
    with messages(verbose, debug):
        if at is None:
            from dftfd.verify.oracle import oracle as table_of

            with at_work(f"looking {name} up"):
                written = table_of(name, points).csv()
        else:
            written = _exact_table(name, at, order, digits)
        if output is None:
            print(written, end="")
        else:
            write_text(output, written)


def _exact_table(name, at, order, digits) -> str:
    """The text of a table at points of the user's own, and a warning that says what is not in its numbers."""
    from dftfd.verify.exact_values import oracle_at

    with at_work(f"evaluating {name} in 150 digits"):
        table = oracle_at(functional_named(name), at, order)
    for note in table.notes:
        warn(note)
    return table.csv(digits)


def _print(report, as_json):
    """The exit code tells whether it passed."""
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        say(report)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)


@app.command()
def read(
    file: Annotated[Path, typer.Argument(help="FILE.mpl, a formula in the notation of libxc's sources.")],
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Describe a formula in libxc's notation.

    FILE.mpl then stands wherever --xc does.
    """
    from dftfd.functionals.named_files import described

    with messages(verbose, debug):
        say(described(file))
