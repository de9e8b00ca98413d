"""The commands benchmark, passport, reaction and audit-code: how good functionals and programs are."""

import json as json_format
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import (
    CHECK_FAILED,
    Debug,
    Jobs,
    Overwrite,
    Scheduler,
    Verbose,
    app,
    at_work,
    given_options,
    messages,
    refuse,
    refuse_existing,
)
from dftfd.cli.option_types import functional_named, with_options
from dftfd.cli.terminal import say
from dftfd.errors import InputError, NotConvergedError
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, names
from dftfd.runtime.progress import in_time

OFFERED = [
    name
    for name in (*names(ENERGY, STATE, START, SEARCH), "max_memory")
    if OPTIONS[name].on_command and name not in ("xc", "allow_unconverged", "occupations", "follow_orbitals")
]

TOTALS = "totals"

Set = Annotated[
    str,
    typer.Argument(help="Set: its name (without one, the sets are listed), a file, or a collection such as gscdb:S22."),
]
Functionals = Annotated[
    str, typer.Option("--xc", help="Functionals, separated by commas, or by semicolons if names contain commas.")
]
Basis = Annotated[str | None, typer.Option(help="Basis set; default: the set's, else def2-tzvp.")]
Data = Annotated[Path | None, typer.Option(help="Folder of a collection; default: the variable DFTFD_BENCHMARKS.")]
Only = Annotated[str, typer.Option(help="Subsets, separated by commas.")]
Limit = Annotated[int | None, typer.Option(help="Use only this many reactions, drawn with --seed.")]
Density = Annotated[
    str | None, typer.Option(help="Evaluate all energies on the density of this functional; default: each on its own.")
]
Record = Annotated[
    Path | None, typer.Option(help="Record of results, one line of JSON each; recorded ones are not computed again.")
]
Csv = Annotated[Path | None, typer.Option(help="Write the table of errors to this file.")]
Json = Annotated[Path | None, typer.Option(help="Write all results to this file (JSON).")]
Latex = Annotated[Path | None, typer.Option(help="Write the table for LaTeX to this file.")]
Html = Annotated[Path | None, typer.Option(help="Write a page with pictures and outliers to this file.")]


@app.command()
@with_options(*OFFERED, molecule=("cartesian",))
def benchmark(
    context: typer.Context,
    name: Set = "",
    xc: Functionals = "pbe",
    basis: Basis = None,
    of_molecule=None,
    of_run=None,
    data: Data = None,
    only: Only = "",
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of --limit.")] = 0,
    density: Density = None,
    jobs: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    record: Record = None,
    scheduler: Scheduler = "",
    csv: Csv = None,
    json: Json = None,
    latex: Latex = None,
    html: Html = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the calculations, their time and memory; compute nothing.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files.")] = False,
    verbose: Verbose = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the tables only.")] = False,
    debug: Debug = False,
):
    """Print the errors of functionals for reactions.

    They are those of a set with known energies.

    The set `totals` compares total energies with those of another program instead.
    """
    from dftfd.benchmarks import shipped_sets

    if not name:
        print("\n".join([*shipped_sets(), TOTALS]))
        return
    outputs = _outputs({".csv": csv, ".json": json, ".tex": latex, ".html": html}, overwrite)
    common: dict[str, Any] = {"data": data, "seed": seed, "basis": basis, "jobs": jobs, "record": record}
    common |= {} if limit is None else {"limit": limit}
    of_set = {"only": _words(only), "density": functional_named(density), "molecule_options": of_molecule}
    if name == TOTALS:
        refused = {"only": only, "density": density, "latex": latex, "html": html, "dry_run": dry_run} | of_molecule
        refuse([key for key, value in refused.items() if value], refused, "does not go with total energies")
        given = given_options(context)
        asked, of_set = {key: value for key, value in of_run.items() if key in given}, {}
    else:
        asked = of_run
    with messages(verbose, debug):
        if dry_run:
            say(_planned(name, functionals_of(xc), common | of_set | asked))
            return
        verdict = _computed(name, functionals_of(xc), scheduler, quiet, common | of_set | asked)
    say(f"{'' if quiet else chr(10)}{verdict}")
    for path, ending in outputs.items():
        verdict.write(path, ending)
    if verdict.failed:
        raise typer.Exit(NotConvergedError.exit_code)


def _computed(name, functionals, scheduler, quiet, options) -> Any:
    """The Verdict of a set, or the Agreement of total energies, with a line for each molecule as it is done."""
    from dftfd.batch.cluster import cluster_client
    from dftfd.benchmarks import benchmark as run_benchmark
    from dftfd.benchmarks import compare_totals
    from dftfd.cli.live import BatchDisplay

    functionals = [functional_named(one) for one in functionals]
    with cluster_client(scheduler) if scheduler else nullcontext() as client, BatchDisplay(quiet) as display:
        options |= {"client": client, "on_step": (lambda step: None) if quiet else partial(tell_step, display)}
        if name == TOTALS:
            return compare_totals(xc=functionals, **options)
        return run_benchmark(name, functionals, **options)


def _planned(name, functionals, options) -> Any:
    from dftfd.benchmarks import plan_benchmark

    options = {key: value for key, value in options.items() if key != "record"}
    return plan_benchmark(name, [functional_named(one) for one in functionals], **options)


@app.command()
def passport(
    name: Annotated[str, typer.Argument(help="Functional, or a passport's file (.json).")],
    compare: Annotated[str | None, typer.Option(help="Another functional or file; exit code 1 if they differ.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the passport to this file (.json); without --compare.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Show a functional's energies of atoms on fixed densities.

    They tell it from others of the same name.
    """
    from dftfd.verify.passport import Comparison, passport_of

    if output is not None and output.suffix.lower() != ".json":
        raise InputError(f"--output {output}: a passport is a file .json, which --compare reads.")
    if output is not None and compare is not None:
        raise InputError(
            f"--output keeps one passport, --compare has two; write each: passport {name} --output {output}."
        )
    outputs = _outputs({".json": output}, overwrite)
    with messages(verbose, debug), at_work("computing energies of atoms"):
        of_word = lambda word: passport_of(word if word.lower().endswith(".json") else functional_named(word))
        found = of_word(name)
        comparison = None if compare is None else Comparison(found, of_word(compare))
    say(found if comparison is None else comparison)
    for path in outputs:
        found.write(path)
    if comparison is not None and not comparison.same:
        raise typer.Exit(CHECK_FAILED)


def functionals_of(words: str) -> list[str]:
    """Names between commas; between semicolons where there is one, since 'lda,vwn' is one name. Brackets stay whole."""
    from dftfd.functionals.names import split_outside

    parts = split_outside(words, ";")
    parts = split_outside(words, ",") if len(parts) == 1 else parts
    return [word.strip() for word in parts if word.strip()]


def _words(text):
    return [word.strip() for word in text.split(",") if word.strip()]


def tell_step(display, step):
    """A line for a molecule that is done."""
    display.show(step.outcome, step.total, step.done, _left(step))


def _left(step):
    return "" if step.seconds_left is None else f"{in_time(step.seconds_left)} left"


def _outputs(given, overwrite):
    """Paths and their formats; FileError where one exists or cannot be written, before anything is computed."""
    outputs = {path: ending for ending, path in given.items() if path is not None}
    if len(outputs) < sum(path is not None for path in given.values()):
        raise InputError("two outputs have the name of one file; give each a name of its own.")
    for path, ending in outputs.items():
        refuse_existing([path], overwrite, ending)
    return outputs


Equation = Annotated[
    list[str],
    typer.Argument(
        help="'2 a.xyz + b.xyz -> c.xyz', in quotes, with blanks around + and ->. Species are files (no2.xyz:0,2 with "
        "charge and multiplicity), 'smiles:O', names of --species, H+ or e-."
    ),
]
GAS = {"temperature", "pressure", "quasi_harmonic"}


@app.command()
@with_options("xc", *OFFERED, molecule=("basis", "unit", "cartesian"))
def reaction(
    context: typer.Context,
    equation: Equation,
    of_molecule,
    of_run,
    species: Annotated[
        list[str] | None, typer.Option(help="NAME=SOURCE: what a name of the equation stands for. May be repeated.")
    ] = None,
    optimize: Annotated[bool, typer.Option("--optimize", help="Optimise the geometries first.")] = False,
    max_steps: Annotated[int, typer.Option(help="Maximum number of steps of --optimize.")] = 100,
    thermo: Annotated[bool, typer.Option("--thermo", help="Enthalpy and Gibbs energy, from frequencies.")] = False,
    temperature: Annotated[float, typer.Option(help="Temperature of --thermo [K].")] = 298.15,
    pressure: Annotated[float, typer.Option(help="Pressure of --thermo [Pa].")] = 101325.0,
    quasi_harmonic: Annotated[
        str | None, typer.Option(help="Entropy of modes below 100 cm^-1: grimme or truhlar.")
    ] = None,
    output: Annotated[list[Path] | None, typer.Option(help="Write a file; .json .html .h5. May be repeated.")] = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    record: Annotated[
        Path | None, typer.Option(help="Record of finished species, which are not computed again.")
    ] = None,
    scheduler: Scheduler = "",
    verbose: Verbose = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the energy in kcal/mol only.")] = False,
    debug: Debug = False,
):
    """Compute the energy of a reaction.

    With --optimize at optimised geometries, with --thermo as Gibbs energy too.
    """
    from dftfd.batch.cluster import cluster_client
    from dftfd.benchmarks.reaction_energy import check_output
    from dftfd.benchmarks.reaction_energy import reaction as compute
    from dftfd.cli.live import BatchDisplay

    given = given_options(context)
    refuse(given, set() if thermo else GAS, "is of a Gibbs energy; give --thermo, too")
    refuse(given, set() if optimize else {"max_steps"}, "is of an optimisation; give --optimize, too")
    for path in output or ():
        check_output(path)
    refuse_existing(output or (), overwrite)
    wanted: dict[str, Any] = {"optimize": optimize, "max_steps": max_steps, "thermo": thermo, "jobs": jobs}
    wanted |= {"temperature": temperature, "pressure": pressure, "quasi_harmonic": quasi_harmonic, "record": record}
    wanted |= {"species": _pairs(species or ()), "molecule_options": of_molecule}
    with messages(verbose, debug), cluster_client(scheduler) if scheduler else nullcontext() as client:
        with BatchDisplay(quiet) as display:
            tell = (lambda step: None) if quiet else (lambda step: tell_step(display, step))
            found = compute(" ".join(equation), **of_run, **wanted, client=client, on_step=tell)
    for path in output or ():
        found.write(path)
    say(f"{found.energy_kcal:.6f}" if quiet and not found.failed else f"\n{found}")
    if found.failed:
        raise typer.Exit(NotConvergedError.exit_code)


def _pairs(words):
    """{name: source} of 'NAME=SOURCE'."""
    pairs = dict(word.partition("=")[::2] for word in words)
    if len(pairs) < len(words):
        raise InputError("--species names a species twice; give each once.")
    if wrong := next((name for name, source in pairs.items() if not name.strip() or not source), None):
        raise InputError(f"--species {wrong}: NAME=SOURCE expected, as in H2=h2.xyz.")
    return pairs


@app.command()
def audit_code(
    target: Annotated[
        str,
        typer.Argument(
            help="dftfd; psi4; nwchem; FILE.toml, an executable with its input; qcengine:PROGRAM:METHOD:BASIS; or "
            "FILE.py:NAME, module:NAME of an ASE calculator, of code that makes one, of code Mole -> mean field of "
            "PySCF, or of a target (docs/audit_code.md). FILE.py is executed."
        ),
    ],
    molecule: Annotated[
        list[str] | None,
        typer.Option(help="water, NH2, coordinates or an xyz file, may be repeated; default: water and NH2."),
    ] = None,
    check: Annotated[list[str] | None, typer.Option(help="A check, may be repeated; default: all.")] = None,
    basis: Annotated[str | None, typer.Option(help="Basis set, where the target takes one.")] = None,
    xc: Annotated[
        str | None, typer.Option(help="Functional of dftfd (default: pbe), method of psi4, nwchem, FILE.toml.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    output: Annotated[
        list[Path] | None, typer.Option(help="Write the audit to this file, .json or .html; may be repeated.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compare the forces of another program with its energies.

    Forces, Hessians, dipoles against differences, sums, symmetry, equivalent inputs; exit code 1 where they disagree.
    """
    from dftfd.interop.asked_program import ProgramTarget
    from dftfd.verify.code_audit import OwnTarget, as_target
    from dftfd.verify.code_audit import audit_code as audit

    refuse_existing(output or [], overwrite, ".json", ".html")
    with messages(verbose, debug):
        asked = OwnTarget(functional_named(xc)) if xc is not None and target == "dftfd" else as_target(target)
        if isinstance(asked, ProgramTarget) and xc is not None:
            asked = asked.of("method", xc)
        elif xc is not None and target != "dftfd":
            raise InputError("--xc is for dftfd, psi4, nwchem and FILE.toml; other targets have their own methods.")
        if basis is not None:
            asked = asked.in_basis(basis)
        tell = lambda line: print(f"dftfd: {line}", file=sys.stderr, flush=True)
        report = audit(asked, molecule or None, check or None, None if quiet else tell)
    for path in output or ():
        report.write(path)
    print_report(report, json)


def print_report(report, as_json: bool) -> None:
    """Print a report as text or JSON; the exit code tells whether it passed."""
    if as_json:
        print(json_format.dumps(report.to_json(), indent=1))
    else:
        say(report)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)
