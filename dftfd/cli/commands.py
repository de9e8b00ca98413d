"""The command run, and what the commands have in common."""

import gc
import inspect
import logging
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from dftfd.cli.option_types import OF_MOLECULE, OFFERED, offered, with_options
from dftfd.cli.terminal import complain, computed, say, warn
from dftfd.errors import CheckpointError, FileError, InputError, NotConvergedError, odd_character
from dftfd.model.options import RUN, names
from dftfd.runtime.libxc_folder import VARIABLE, maple_folder
from dftfd.runtime.progress import PlainProgress, Progress
from dftfd.runtime.startup import loaded
from dftfd.runtime.version import VERSION

CHECK_FAILED = 1
WITHOUT_JAX = {"list", "cache", "completion", "doctor"}
ONE_MOLECULE = {"json", "output", "report", "checkpoint", "restart", "stability", "solvation_energy", "dry_run"}
"""Options of `run` that only a batch, and only a single molecule, understands."""

AROUND = {*names(RUN), "allow_unconverged"} - {"progress"}
"""Options beside a QCSchema file, which decides the others."""

FORMULA_OBJECTS = 50_000
"""Objects that a command about a formula makes before it looks for garbage: formulas are many small objects that live
as long as the command, and looking at them again and again takes an eighth of its time."""


_DASHES = re.compile("-?[\u2010-\u2015\u2212][-\u2010-\u2015\u2212]?[a-z]")
"""Options whose hyphens a word processor has changed."""


_PYTHONS = re.compile(r"(?=.*_)[+-]?[0-9_]*(?:[0-9]|\.[0-9])[0-9_.]*(?:e[+-]?[0-9_]+)?", re.I)
"""Numbers with underscores, as only Python reads them."""


def _is_number(annotation) -> bool:
    """Whether an option takes a number, by the type of its function's argument."""
    return annotation in (int, float) or any(map(_is_number, get_args(annotation)))


class Commands(TyperGroup):
    """The commands; of an option that counts once and is given twice the last value counts, and a warning says so."""

    def resolve_command(self, ctx, args):
        name, command, rest = super().resolve_command(ctx, args)
        once = [p for p in getattr(command, "params", ()) if p.param_type_name == "option" and not p.multiple]
        given = [word.partition("=")[0] for word in rest]
        for option in once:
            if sum(given.count(flag) for flag in (*option.opts, *option.secondary_opts)) > 1:
                warn(f"{option.opts[0]} is given more than once; the last value is used.")
        if odd := next(filter(_DASHES.match, rest), None):
            raise InputError(f"{odd!r} is not an option{odd_character(odd)}; options begin with two hyphens, --.")
        function = getattr(command, "callback", None)
        types = inspect.signature(function).parameters if function else {}
        numbers = {flag for p in once if p.name in types and _is_number(types[p.name].annotation) for flag in p.opts}
        values = [word.partition("=")[::2] for word in rest] + list(pairwise(rest))
        if odd := next((value for flag, value in values if flag in numbers and _PYTHONS.fullmatch(value)), None):
            raise InputError(f"{odd!r} is not a number; write {odd.replace('_', '')}.")
        return name, command, rest


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Density-functional theory by functional automatic differentiation.",
)

Files = Annotated[
    list[str],
    typer.Argument(
        help="File, .xyz .mol .sdf .json (QCSchema), FILE@-1 for a frame; coordinates such as 'H 0 0 0; H 0 0 0.74', "
        "a Z-matrix 'O; H 1 0.96; H 1 0.96 2 104.5', 'smiles:CCO'. Several files, a pattern in quotes, a trajectory or "
        "a table (.csv) make a batch."
    ),
]
Overwrite = Annotated[bool, "Replace existing output files."]
Scheduler = Annotated[str, "Address of a Dask scheduler whose workers run the batch, tcp://host:8786."]
JsonOut = Annotated[bool, "Print one JSON document instead of a table."]


@dataclass(frozen=True)
class Outputs:
    """Files of the result of one molecule."""

    json: Annotated[Path | None, "Write the result in QCSchema form to this file."] = None
    output: Annotated[
        list[Path] | None,
        "Write a file in the format of its ending: .h5 .json .npz .molden .cube .html .xyz. homo.cube, x.lumo+1.cube "
        "and elf.cube hold the named field, other cubes the density. May be repeated.",
    ] = None
    report: Annotated[Path | None, "Write a report with pictures, one HTML page."] = None
    overwrite: Annotated[bool, "Replace existing output files, and a checkpoint of another calculation."] = False

    def checked(self) -> list[tuple[Path, str]]:
        """Paths and endings; FileError where one can't be written, before anything is computed."""
        from dftfd.results.output import check_format

        named = [(self.json, ".json"), (self.report, ".html"), *((path, None) for path in self.output or ())]
        outputs = [(path, ending or path.suffix) for path, ending in named if path is not None]
        for path, ending in outputs:
            check_format(path, ending)
            refuse_existing(path, self.overwrite, ending.lower(), reports=True)
        return outputs


@dataclass(frozen=True)
class Batch:
    """How several molecules are computed, and the files of a batch."""

    jobs: Annotated[int, "Number of processes of a batch."] = 1
    record: Annotated[
        Path | None, "Record of a batch, one line of JSON per result; a run with the same record continues."
    ] = None
    scheduler: Scheduler = ""
    table: Annotated[Path | None, "Write the table of a batch to this file (.csv)."] = None


@contextmanager
def messages(
    verbose: Annotated[bool, "Print times and sizes."] = False,
    debug: Annotated[bool, "Show debugging messages and tracebacks of errors."] = False,
):
    """Inside, log records and warnings are single lines on standard error, each warning once."""
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
            warnings.showwarning = _each_once()
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _each_once():
    """Code in place of `warnings.showwarning`; the points of a scan need not repeat one another."""
    said: set[str] = set()

    def show(message, category, filename, lineno, file=None, line=None):
        if str(message) not in said:
            said.add(str(message))
            warn(message)

    return show


def command(
    name: str | None = None, of_run: Collection[str] = OFFERED, of_molecule: Collection[str] = tuple(OF_MOLECULE)
) -> Callable:
    """Decorator: a command with the options of its function, see option_types, and those of `messages`.

    of_run: what of run_scf's options its argument of that name holds.   of_molecule: the same of a molecule's.
    """
    return lambda function: app.command(name)(with_options(function, of_run, of_molecule, messages))


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    libxc_source: Annotated[
        Path | None,
        typer.Option(help="Source tree of libxc 7.0.0, whose formulas libxc:NAME is read from; or DFTFD_LIBXC_SOURCE."),
    ] = None,
):
    if libxc_source is not None:
        maple_folder(libxc_source)  # FileError now for a folder that is none
        os.environ[VARIABLE] = str(libxc_source.absolute())  # processes that a batch starts see it too
    if version:
        print(VERSION)
    elif context.invoked_subcommand is None:
        print(context.get_help())
    elif context.invoked_subcommand not in WITHOUT_JAX and "--help" not in sys.argv:
        from dftfd.runtime.jax_settings import prepare_jax

        prepare_jax()
        loaded()


def given_options(context) -> list[str]:
    """Names of the options that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def are_many(files, given) -> bool:
    """Whether files, or options on the command line, make a batch."""
    from dftfd.batch.entries import stands_for_many

    return len(files) > 1 or any(field.name in given for field in fields(Batch)) or stands_for_many(files[0])


def run_batch_of(files, of_molecule, of_run, batch: Batch, overwrite, quiet=False, geometries=None, **task):
    """Compute a batch, print what becomes of it, end the command with the exit code of the first molecule that failed.

    task: `task=` and `search=` of run_batch.   geometries: None, or the xyz file of the last geometries.
    """
    from dftfd.batch import run_batch
    from dftfd.batch.entries import REASONS, check_table, is_table
    from dftfd.batch.processes import cluster_client
    from dftfd.cli.live import BatchDisplay
    from dftfd.runtime.files import write_text

    goes_on = batch.record is not None and os.path.isfile(batch.record)  # then what it wrote itself is written anew
    for path, ending, is_own in ((batch.table, ".csv", is_table), (geometries, ".xyz", _are_geometries)):
        if path is not None:
            refuse_existing(path, overwrite or goes_on and os.path.isfile(path) and is_own(path), ending)
    if batch.table is not None:
        check_table(batch.table)
    with cluster_client(batch.scheduler) as client, BatchDisplay(quiet) as display:
        task |= {"jobs": batch.jobs, "client": client, "record": batch.record, "molecule_options": of_molecule}
        outcomes = run_batch(files, on_outcome=display.show, **task, **of_run)
    failed = outcomes.failed
    if not quiet:
        say(f"\n{outcomes}\n{len(outcomes) - len(failed)} of {len(outcomes)} molecules converged")
    if batch.table is not None:
        outcomes.write(batch.table)
    if geometries is not None:
        write_text(geometries, "".join(_frame(o) for o in outcomes if o.document is not None))
    if failed:
        counts = Counter(REASONS[outcome.exit_code] for outcome in failed)
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        complain(f"{len(failed)} of {len(outcomes)} molecules failed: {reasons}.")
    raise typer.Exit(failed[0].exit_code if failed else 0)


def _are_geometries(path):
    """Whether a file begins as those of last geometries do."""
    from dftfd.runtime.files import without_waiting

    with open(path, "rb", opener=without_waiting) as stream:
        return b" energy_hartree=" in stream.read(4096).partition(b"\n")[2].partition(b"\n")[0]


def _frame(outcome):
    """The last geometry of an outcome as a frame of an xyz file [angstrom]."""
    from dftfd.libcint.mole import BOHR_IN_ANGSTROM

    molecule = outcome.document["molecule"]
    charge, multiplicity = round(molecule["molecular_charge"]), molecule["molecular_multiplicity"]
    lines = [str(len(molecule["symbols"])), f"{outcome.name} charge={charge} multiplicity={multiplicity}"]
    lines[1] += f" energy_hartree={outcome.energy!r}"
    x = molecule["geometry"]
    for k, (symbol, is_real) in enumerate(zip(molecule["symbols"], molecule["real"], strict=True)):
        lines.append(
            f"{symbol if is_real else f'ghost-{symbol}'} "
            + " ".join(f"{a * BOHR_IN_ANGSTROM:.10f}" for a in x[3 * k : 3 * k + 3])
        )
    return "\n".join(lines) + "\n"


def require_convergence(converged, otherwise):
    """End the command with the line `otherwise` and its exit code where there is no convergence."""
    if not converged:
        complain(otherwise)
        raise typer.Exit(NotConvergedError.exit_code)


def require_scf(result):
    """The same of an SCF."""
    require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")


def converged_scf(system, of_run, progress, *wanted):
    """The result of a molecule, of which properties are wanted; ends the command where it has not converged."""
    from dftfd.functionals import supports
    from dftfd.tasks.run import run_scf

    with supports.wanted(*wanted):
        result = run_scf(system, **of_run, progress=progress)
    require_scf(result)
    return result


def refuse(given, names, why):
    """Raise InputError where an option was given that does not go with the rest."""
    for name in given:
        if name in names:
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def refuse_existing(paths, overwrite, *endings, exactly=False, reports=False):
    """FileError for files that are there already, which only --overwrite replaces, and for those nobody can write.

    paths: one, several, or None.   endings, exactly: as of require_ending, whose InputErrors they are.   reports:
    whether pages .html have pictures, for which Matplotlib may be missing, a MissingDependencyError.
    """
    from dftfd.runtime.files import ENDINGS, check_writable, require_ending, require_matplotlib

    for path in [paths] if isinstance(paths, Path) else paths or ():
        if endings:
            require_ending(path, *endings, exactly=exactly)
        if path.suffix.lower() in (*ENDINGS, ".html" if reports else ""):
            require_matplotlib()
        if not overwrite and os.path.lexists(path):
            raise FileError(f"{path} exists; take another name, or give --overwrite to replace it.")
        check_writable(path)


def write_files(result, outputs, driver, parts):
    """Write the files, cubes of what their names say before .cube (water.homo.cube), else of the density.

    parts: what the command printed, of which no number is missing in .h5, .json and .html.

    One that would hold properties of a density that is no solution is left out, with a warning.
    """
    from dftfd.results.document import Document
    from dftfd.results.output import field_of

    for path, ending in outputs:
        options: dict[str, Any] = {"driver": driver} if ending == ".json" else {}
        if ending in (".h5", ".json", ".html"):
            options["document"] = Document(parts)
        if ending == ".cube" and (field := field_of(path)) is not None:
            options["field"] = field
        try:
            result.write(path, ending, **options)
        except NotConvergedError as error:
            warn(f"{path} not written: {error}")


@contextmanager
def at_work(what):
    """A sign of life on a terminal, beside what goes to standard output, while a formula is looked at."""
    gc.set_threshold(FORMULA_OBJECTS)
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


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
        for line in _heading(system):
            display.note(line)
        yield display
    if not quiet:
        computed.append(system)


def _heading(molecule):
    """Lines that fit a terminal."""
    from dftfd.system.molecule import UNITS

    yield f"dftfd {VERSION}: {molecule.formula}, {molecule.n_electrons} electrons, {molecule.n_ao} basis functions"
    if molecule.shortest_distance is not None:
        a, b, distance = molecule.shortest_distance
        names = f"{molecule.symbols[a]}{a + 1}-{molecule.symbols[b]}{b + 1}"
        yield f"nearest atoms {names} {distance / UNITS['angstrom']:.4f} angstrom"


@command(of_run=offered())
def run(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    *,
    stability: Annotated[bool, "Analyse the stability of the solution."] = False,
    solvation_energy: Annotated[bool, "Also compute the molecule in vacuum."] = False,
    dry_run: Annotated[bool, "Print atoms, electrons, basis functions and memory; compute nothing."] = False,
    outputs: Outputs,
    batch: Batch,
    quiet: Annotated[bool, "Print the total energy only."] = False,
):
    """Compute the Kohn-Sham energy of a molecule, or of many."""
    from dftfd.functionals import supports
    from dftfd.results.checkpoint import as_checkpoint
    from dftfd.results.document import Document, Said, numbers
    from dftfd.system.molecule import molecule
    from dftfd.tasks.run import plan_scf

    given = given_options(context)
    if are_many(files, given):
        refuse(given, ONE_MOLECULE, "is for one molecule; a batch writes results to --record and a table to --table")
        run_batch_of(files, of_molecule, of_run, batch, outputs.overwrite, quiet)
    paths = outputs.checked()
    kept = as_checkpoint(of_run["checkpoint"], of_run["restart"], outputs.overwrite)
    of_run["checkpoint"] = context.obj.checkpoint = kept
    request = _request(files[0], of_molecule, of_run, given)
    system = molecule(**request.molecule)
    asked = ["stability of a state"] if stability and not quiet else []
    with progress_of(system, quiet) as progress, supports.wanted(*asked):
        if dry_run:
            plan_scf(system, progress, **request.settings)
            raise typer.Exit
        parts = _computed(system, request.settings | {"progress": progress}, solvation_energy)
    result = parts["result"]
    say(f"{result.energy:.10f}" if quiet else f"\n{Document(parts)}")
    if stability and result.converged and not quiet:
        found = result.stability()
        parts["stability"] = Said(f"  stability             {found}", numbers(found))
        say(parts["stability"])
    write_files(result, paths, request.driver, parts)
    require_scf(result)
    require_convergence(not solvation_energy or parts["solvation"].converged, "SCF in vacuum not converged.")
    if kept is not None and kept.failure is not None:
        raise CheckpointError(f"the result is complete, but its checkpoint was not written: {kept.failure}")


def _computed(system, settings, solvation_energy) -> dict[str, Any]:
    """The result, and the solvation energy where it is asked for, as parts of a Document."""
    from dftfd.tasks.energy_differences import Solvation, in_vacuum
    from dftfd.tasks.run import run_scf

    result = run_scf(system, **settings)
    if not solvation_energy:
        return {"result": result}
    settings["progress"].note("the same calculation in vacuum")
    return {"result": result, "solvation": Solvation(result, run_scf(system, **in_vacuum(settings)))}


def _request(file, of_molecule, of_run, given):
    """What is asked for: by the options, or by a QCSchema input, which then decides all but what happens around it."""
    from dftfd.results.qcschema import Request, read_input

    if not file.lower().endswith(".json"):
        return _with_solvent(Request({"source": file} | of_molecule, of_run), given)
    refuse(given, {*of_molecule, "multiplicity", *of_run} - AROUND, f"is what {file} decides; leave it out")
    request = read_input(file)
    request.settings.update({name: of_run[name] for name in AROUND})
    return _with_solvent(request, given)


def _with_solvent(request, given):
    """The request; InputError for a solvation energy without a solvent."""
    if "solvation_energy" in given and request.settings.get("solvent") is None:
        raise InputError("--solvation-energy needs a solvent, as in --solvent water.")
    return request
