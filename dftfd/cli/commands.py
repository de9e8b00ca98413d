"""The commands run, check, audit, show and export."""

import json
import logging
import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.option_types import functional_named, with_options
from dftfd.errors import CheckpointError, FileError, InputError, NotConvergedError
from dftfd.model.options import OPTIONS, RUN, names
from dftfd.runtime.progress import PlainProgress, Progress
from dftfd.runtime.version import VERSION

CHECK_FAILED = 1
WITHOUT_JAX = {"list", "cache", "completion"}
BATCH = {"jobs", "record", "scheduler"}
ONE_MOLECULE = {"json", "output", "report", "checkpoint", "restart", "stability", "overwrite"}
"""Options of `run` that only a batch, and only a single molecule, understands."""

AROUND = {*names(RUN), "allow_unconverged"} - {"progress"}
"""Options beside a QCSchema file, which decides the others."""


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Density-functional theory by functional automatic differentiation.",
)

Debug = Annotated[bool, typer.Option("--debug", help="Show debugging messages, and the traceback of an error.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Tell more: times of the stages, sizes.")]
Files = Annotated[
    list[str],
    typer.Argument(
        help="xyz file, coordinates such as 'H 0 0 0; H 0 0 0.74', or QCSchema input (.json). "
        "Several, a pattern in quotes or a trajectory make a batch."
    ),
]
Output = Annotated[
    list[Path] | None,
    typer.Option(help="Write a file; .h5 .json .npz .molden .cube .html .xyz name its format. May be repeated."),
]
Json = Annotated[Path | None, typer.Option(help="Write the result in QCSchema form to this file.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Write a report with pictures, one HTML page.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace output files, and a foreign checkpoint.")]
Record = Annotated[
    Path | None, typer.Option(help="Results of a batch, one line of JSON each; what it already holds is not repeated.")
]

Jobs = Annotated[int, typer.Option(help="Processes that a batch runs in.")]
Scheduler = Annotated[
    str, typer.Option(help="Address of a Dask scheduler whose workers run the batch, tcp://host:8786.")
]


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
):
    if version:
        print(VERSION)
    elif context.invoked_subcommand is None:
        print(context.get_help())
    elif context.invoked_subcommand not in WITHOUT_JAX and "--help" not in sys.argv:
        from dftfd.runtime.jax_settings import prepare_jax

        prepare_jax()


@app.command()
@with_options(*(name for name, option in OPTIONS.items() if option.on_command))
def run(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    stability: Annotated[bool, typer.Option("--stability", help="Analyse the stability of the solution.")] = False,
    json: Json = None,
    output: Output = None,
    report: ReportFile = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    record: Record = None,
    scheduler: Scheduler = "",
    verbose: Verbose = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the total energy only.")] = False,
    debug: Debug = False,
):
    """Compute the Kohn-Sham energy of a molecule, or of many."""
    from dftfd.results.checkpoint import as_checkpoint
    from dftfd.system.molecule import molecule
    from dftfd.tasks.run import run_scf

    given = given_options(context)
    if are_many(files, given):
        refuse(given, ONE_MOLECULE, "is for one molecule; a batch writes its results to --record")
        run_batch_of(files, of_molecule, of_run, jobs, record, scheduler, verbose, debug, quiet=quiet)
    outputs = output_files(json, report, output, overwrite)
    kept = as_checkpoint(of_run["checkpoint"], of_run["restart"], overwrite)
    of_run["checkpoint"] = context.obj.checkpoint = kept
    with messages(verbose, debug):
        request = _request(files[0], of_molecule, of_run, given)
        system = molecule(**request.molecule)
        with progress_of(system, quiet) as progress:
            result = run_scf(system, **request.settings | {"progress": progress})
    print(f"{result.energy:.10f}" if quiet else f"\n{result}")
    if stability and result.converged and not quiet:
        print(f"  stability             {result.stability()}")
    write_files(result, outputs, request.driver)
    require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
    if kept is not None and kept.failure is not None:
        raise CheckpointError(f"the result is complete, but its checkpoint was not written: {kept.failure}")


def given_options(context) -> list[str]:
    """Names of the options that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def are_many(files, given) -> bool:
    """Whether files, or options on the command line, make a batch."""
    from dftfd.batch.entries import stands_for_many

    return len(files) > 1 or not BATCH.isdisjoint(given) or stands_for_many(files[0])


def run_batch_of(files, of_molecule, of_run, jobs, record, scheduler, verbose, debug, quiet=False, **task):
    """Compute a batch and end the command with its exit code."""
    from dftfd.cli.batches import run_many

    with messages(verbose, debug):
        code = run_many(files, of_molecule, of_run, jobs, record, scheduler, quiet, **task)
    raise typer.Exit(code)


def require_convergence(converged, otherwise):
    """End the command with the line `otherwise` and its exit code where there is no convergence."""
    if not converged:
        print("dftfd: error:", otherwise, file=sys.stderr)
        raise typer.Exit(NotConvergedError.exit_code)


def refuse(given, names, why):
    """Raise InputError where an option was given that does not go with the rest."""
    for name in given:
        if name in names:
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def output_files(json, report, output, overwrite):
    """Paths and endings of the files to write; FileError where one can't be, before anything is computed."""
    from dftfd.results.output import check_format

    named = [(json, ".json"), (report, ".html"), *((path, None) for path in output or ())]
    outputs = [(path, ending or path.suffix) for path, ending in named if path is not None]
    for path, ending in outputs:
        check_format(path, ending)
        refuse_existing([path], overwrite)
    return outputs


def refuse_existing(paths, overwrite):
    """FileError for files that are there already, which only --overwrite replaces."""
    for path in paths:
        if not overwrite and os.path.lexists(path):
            raise FileError(f"{path} exists; take another name, or give --overwrite to replace it.")


def _request(file, of_molecule, of_run, given):
    """What is asked for: by the options, or by a QCSchema input, which then decides all but what happens around it."""
    from dftfd.results.qcschema import Request, read_input

    if not file.lower().endswith(".json"):
        return Request({"source": file} | of_molecule, of_run)
    refuse(given, {*of_molecule, *of_run} - AROUND, f"is what {file} decides; leave it out")
    request = read_input(file)
    request.settings.update({name: of_run[name] for name in AROUND})
    return request


def write_files(result, outputs, driver):
    """Write the files; one that would hold properties of a density that is no solution is left out, with a warning."""
    for path, ending in outputs:
        try:
            result.write(path, ending, **({"driver": driver} if ending == ".json" else {}))
        except NotConvergedError as error:
            print(f"dftfd: warning: {path} not written: {error}", file=sys.stderr)


JsonOut = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Functional to compare with libxc; FILE.py:NAME for one in a file.")],
    quick: Annotated[bool, typer.Option("--quick", help="Energy density and its derivatives alone; seconds.")] = False,
    values: Annotated[
        Path | None, typer.Option(help="Table of points and of your own values, which are compared with ours.")
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Allowed error of --values; default: 1e-10.")] = None,
    json: JsonOut = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compare a functional, its potential and its matrix with libxc; exit code 1 where they differ."""
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
    reference: Annotated[str | None, typer.Option(help="Functional that the target should be.")] = None,
    json: JsonOut = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Look for mistakes in the derivatives of a functional, libxc's or anybody's; exit code 1 where there are some."""
    from dftfd.verify.audit import audit as audit_target
    from dftfd.verify.audit import import_target

    is_code = ":" in target and not target.lower().startswith("libxc:") and "(" not in target
    with messages(verbose, debug), at_work(f"auditing {target}"):
        what = import_target(target) if is_code else target
        report = audit_target(what, xctype=xctype, reference=reference and functional_named(reference), libxc=libxc)
    _print(report, json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc; FILE.py:NAME for one in a file.")],
    plot: Annotated[Path | None, typer.Option(help="Write the enhancement factor as a picture (needs plots).")] = None,
    compare: Annotated[str | None, typer.Option(help="Of the picture: another functional, in broken lines.")] = None,
    surface: Annotated[
        bool, typer.Option("--surface", help="Of the picture: the factor over s and alpha as well.")
    ] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Decide the local conditions by proof as well.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the formulas as LaTeX instead (needs SymPy).")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Show what a functional is, and which exact conditions it meets."""
    from dftfd.runtime.pictures import require_matplotlib
    from dftfd.verify.report_card import report_card

    if plot is None and (compare is not None or surface):
        raise InputError("--compare and --surface are about the picture; say --plot FILE.png.")
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
        print(card)
        if plot is not None:
            card.plot(plot, functional_named(compare), surface)


@app.command()
def prove(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc; FILE.py:NAME for one in a file.")],
    condition: Annotated[
        list[str] | None, typer.Option(help="A condition; may be given again. All if none is.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="VARIABLE=FROM:TO, as zeta=0:1; may be given again.")] = None,
    boxes: Annotated[int, typer.Option(help="Boxes that are looked at before it is undecided.")] = 2_000_000,
    recheck: Annotated[float | None, typer.Option(help="Recheck proofs with Arb, for so many seconds each.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the certificate (of one condition) as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the map (of one condition) as a picture.")] = None,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Prove local exact conditions for all points of a domain, or show a point that violates them."""
    from dftfd.verify.proof_report import prove_and_report

    with messages(verbose, debug):
        if not prove_and_report(functional_named(name), condition, domain, boxes, recheck, save, plot, print):
            raise typer.Exit(CHECK_FAILED)


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; made where it is not there.")],
    order: Annotated[int, typer.Option(help="Order of the highest derivatives, 0 to 4.")] = 4,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Write a functional and its derivatives as C for other programs."""
    from dftfd.translate.exporting import export as export_functional

    with messages(verbose, debug):
        paths = export_functional(functional_named(name), folder, order, overwrite)
    for path in paths:
        print(path)


@app.command()
def workbench(
    name: Annotated[str, typer.Argument(help="Functional, as in --xc.")],
    other: Annotated[str | None, typer.Argument(help="Another one, to stand beside it.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")] = Path("workbench.html"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Write a page on which a functional is evaluated while its parameters are moved; it needs no network."""
    from dftfd.interactive.workbench import require_new
    from dftfd.interactive.workbench import workbench as page_of

    with messages(verbose, debug):
        require_new(output, overwrite)
        with at_work("translating the functional"):
            page = page_of(functional_named(name), None if other is None else functional_named(other))
        page.write(output, overwrite)
    print(f"{output}: {page}")


@contextmanager
def at_work(what):
    """A sign of life on a terminal, beside what goes to standard output."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def _print(report, as_json):
    """In colour on a terminal, plain elsewhere; the exit code tells whether it passed."""
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    elif sys.stdout.isatty():
        from rich import print as print_in_colour

        print_in_colour(report)
    else:
        print(report)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)


@contextmanager
def messages(verbose, debug):
    """Inside, log records and warnings are single lines on standard error."""
    handler, logger = logging.StreamHandler(), logging.getLogger("dftfd")
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug or verbose else logging.WARNING)
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print("dftfd: warning:", " ".join(str(message).split()), file=sys.stderr)


@contextmanager
def progress_of(system, quiet=False):
    """The progress display that suits the output: none, a live table on a terminal, plain lines elsewhere.

    It begins with what was read: formula, electrons, basis and the nearest atoms, so that a wrong unit shows at once.
    """
    if quiet:
        display = Progress()
    elif sys.stdout.isatty():
        from dftfd.cli.live import LiveProgress

        display = LiveProgress()
    else:
        display = PlainProgress()
    with display:
        display.note(_heading(system))
        yield display


def _heading(molecule):
    from dftfd.system.molecule import UNITS

    text = f"dftfd {VERSION}: {molecule.formula}, {molecule.n_electrons} electrons, {molecule.n_ao} basis functions"
    nearest = molecule.shortest_distance
    if nearest is None:
        return text
    a, b, distance = nearest
    names = f"{molecule.symbols[a]}{a + 1}-{molecule.symbols[b]}{b + 1}"
    return f"{text}, nearest atoms {names} {distance / UNITS['angstrom']:.4f} angstrom"
