"""The commands benchmark, passport, reaction and audit-code: how good functionals and programs are."""

import json as json_format
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.chemistry import Gas
from dftfd.cli.commands import (
    CHECK_FAILED,
    JsonOut,
    Overwrite,
    Scheduler,
    at_work,
    command,
    given_options,
    refuse,
    refuse_existing,
)
from dftfd.cli.option_types import OFFERED, functional_named, pairs, words_of
from dftfd.cli.terminal import say
from dftfd.errors import InputError, NotConvergedError
from dftfd.runtime.progress import in_time

TOTALS = "totals"
OF_BENCHMARKS = [name for name in OFFERED if name not in ("xc", "occupations", "follow_orbitals")]


@command(of_run=OF_BENCHMARKS, of_molecule=["cartesian"])
def benchmark(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="Set: its name (without one, the sets are listed), a file, or a collection such as gscdb:S22."
        ),
    ] = "",
    *,
    xc: Annotated[str, "Functionals, separated by commas, or by semicolons if names contain commas."] = "pbe",
    basis: Annotated[str | None, "Basis set; default: the set's, else def2-tzvp."] = None,
    of_molecule,
    of_run,
    data: Annotated[Path | None, "Folder of a collection; default: the variable DFTFD_BENCHMARKS."] = None,
    only: Annotated[str, "Subsets, separated by commas."] = "",
    limit: Annotated[int | None, "Use only this many reactions, drawn with --seed."] = None,
    seed: Annotated[int, "Seed of --limit."] = 0,
    density: Annotated[
        str | None, "Evaluate all energies on the density of this functional; default: each on its own."
    ] = None,
    jobs: Annotated[int, "Number of processes."] = 1,
    record: Annotated[
        Path | None, "Record of results, one line of JSON each; recorded ones are not computed again."
    ] = None,
    scheduler: Scheduler = "",
    csv: Annotated[Path | None, "Write the table of errors to this file."] = None,
    json: Annotated[Path | None, "Write all results to this file (JSON)."] = None,
    latex: Annotated[Path | None, "Write the table for LaTeX to this file."] = None,
    html: Annotated[Path | None, "Write a page with pictures and outliers to this file."] = None,
    dry_run: Annotated[bool, "Print the calculations, their time and memory; compute nothing."] = False,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, "Print the tables only."] = False,
):
    """Print the errors of functionals for reactions.

    SET is a set of reactions with known energies.

    The set `totals` instead compares total energies with those of another program.
    """
    from dftfd.benchmarks import plan_benchmark, shipped_sets

    if not name:
        print("\n".join([*shipped_sets(), TOTALS]))
        return
    functionals = functionals_of(xc)
    outputs = _outputs({".csv": csv, ".json": json, ".tex": latex, ".html": html}, overwrite)
    common: dict[str, Any] = {"data": data, "seed": seed, "basis": basis, "jobs": jobs, "record": record}
    common |= {} if limit is None else {"limit": limit}
    of_set = {"only": words_of(only), "density": functional_named(density), "molecule_options": of_molecule}
    if name == TOTALS:
        refused = {"only": only, "density": density, "latex": latex, "html": html, "dry_run": dry_run} | of_molecule
        refuse([key for key, value in refused.items() if value], refused, "is not available for total energies")
        given = given_options(context)
        of_run, of_set = {key: value for key, value in of_run.items() if key in given}, {}
    options = common | of_set | of_run
    if dry_run:
        del options["record"]
        say(plan_benchmark(name, functionals, **options))
        return
    verdict = _computed(name, functionals, scheduler, quiet, options)
    say(f"{'' if quiet else chr(10)}{verdict}")
    for path, ending in outputs.items():
        verdict.write(path, ending)
    if verdict.failed:
        raise typer.Exit(NotConvergedError.exit_code)


def _computed(name, functionals, scheduler, quiet, options) -> Any:
    """The Verdict of a set, or the Agreement of total energies, with a line for each molecule as it is done."""
    from dftfd.batch.processes import cluster_client
    from dftfd.benchmarks import benchmark as run_benchmark
    from dftfd.benchmarks import compare_totals
    from dftfd.cli.live import BatchDisplay

    with cluster_client(scheduler) as client, BatchDisplay(quiet) as display:
        options |= {"client": client, "on_step": (lambda step: None) if quiet else partial(tell_step, display)}
        if name == TOTALS:
            return compare_totals(xc=functionals, **options)
        return run_benchmark(name, functionals, **options)


@command()
def passport(
    name: Annotated[str, typer.Argument(help="Functional, or a passport's file (.json).")],
    compare: Annotated[str | None, "Another functional or file; exit code 1 if they differ."] = None,
    output: Annotated[Path | None, "Write the passport to this file (.json); without --compare."] = None,
    overwrite: Overwrite = False,
):
    """Show a functional's energies of atoms on fixed densities.

    They distinguish functionals of the same name.
    """
    from dftfd.verify.passport import Comparison, passport_of

    if output is not None and output.suffix.lower() != ".json":
        raise InputError(f"--output {output}: the name of a passport file must end in .json.")
    if output is not None and compare is not None:
        raise InputError(
            f"--output writes one passport, but --compare has two; write each: passport {name} --output {output}."
        )
    refuse_existing(output, overwrite, ".json")
    with at_work("computing energies of atoms"):
        of_word = lambda word: passport_of(word if word.lower().endswith(".json") else functional_named(word))
        found = of_word(name)
        comparison = None if compare is None else Comparison(found, of_word(compare))
    say(found if comparison is None else comparison)
    if output is not None:
        found.write(output)
    if comparison is not None and not comparison.same:
        raise typer.Exit(CHECK_FAILED)


def functionals_of(words: str) -> list:
    """Functionals between commas, or semicolons if there is one, since 'lda,vwn' is one name. Brackets stay whole."""
    from dftfd.functionals.names import split_outside

    parts = split_outside(words, ";")
    if len(parts) == 1:
        parts = split_outside(words, ",")
        if len(parts) > 1 and not all(map(str.strip, parts)):
            raise InputError(
                f"{words.strip()!r} has a comma with nothing on one side; leave it out of a list, or end the name with "
                "a semicolon if exchange or correlation alone is meant, as in 'pbe,;'."
            )
    return [functional_named(word.strip()) for word in parts if word.strip()]


def tell_step(display, step):
    """A line for a molecule that is done."""
    display.show(step.outcome, step.total, step.done, _left(step))


def _left(step):
    return "" if step.seconds_left is None else f"{in_time(step.seconds_left)} left"


def _outputs(given, overwrite):
    """Paths and their formats; FileError where one exists or cannot be written, before anything is computed."""
    outputs = {path: ending for ending, path in given.items() if path is not None}
    if len(outputs) < sum(path is not None for path in given.values()):
        raise InputError("two outputs have the same file name; give different names.")
    for path, ending in outputs.items():
        refuse_existing(path, overwrite, ending)
    return outputs


Equation = Annotated[
    list[str],
    typer.Argument(
        help="'2 a.xyz + b.xyz -> c.xyz', in quotes, with blanks around + and ->. Species are files (no2.xyz:0,2 with "
        "charge and multiplicity), 'smiles:O', names of --species, H+ or e-."
    ),
]


@command(of_run=["xc", *OF_BENCHMARKS], of_molecule=["basis", "unit", "cartesian"])
def reaction(
    context: typer.Context,
    equation: Equation,
    of_molecule,
    of_run,
    *,
    species: Annotated[
        list[str] | None, "NAME=SOURCE: what a name of the equation stands for. May be repeated."
    ] = None,
    optimize: Annotated[bool, "Optimise the geometries first."] = False,
    max_steps: Annotated[int, "Maximum number of steps of --optimize."] = 100,
    thermo: Annotated[bool, "Enthalpy and Gibbs energy, from frequencies."] = False,
    gas: Gas,
    output: Annotated[list[Path] | None, "Write a file; .json .html .h5. May be repeated."] = None,
    overwrite: Overwrite = False,
    jobs: Annotated[int, "Number of processes."] = 1,
    record: Annotated[Path | None, "Record of finished species, which are not computed again."] = None,
    scheduler: Scheduler = "",
    quiet: Annotated[bool, "Print the energy in kcal/mol only."] = False,
):
    """Compute the energy of a reaction.

    With --optimize, geometries are optimised first. With --thermo, Gibbs energies are computed too.
    """
    from dftfd.batch.processes import cluster_client
    from dftfd.benchmarks.reaction_energy import ENDINGS
    from dftfd.benchmarks.reaction_energy import reaction as compute
    from dftfd.cli.live import BatchDisplay

    given = given_options(context)
    if not thermo:
        refuse(given, {field.name for field in fields(gas)}, "needs --thermo")
    if not optimize:
        refuse(given, {"max_steps"}, "needs --optimize")
    refuse_existing(output, overwrite, *ENDINGS, exactly=True)
    wanted: dict[str, Any] = {"optimize": optimize, "max_steps": max_steps, "thermo": thermo, "jobs": jobs}
    wanted |= {"record": record, "molecule_options": of_molecule, **vars(gas)}
    wanted["species"] = pairs("species", species or (), str, "NAME=SOURCE, as in H2=h2.xyz,")
    with cluster_client(scheduler) as client, BatchDisplay(quiet) as display:
        tell = (lambda step: None) if quiet else partial(tell_step, display)
        found = compute(" ".join(equation), **of_run, **wanted, client=client, on_step=tell)
    for path in output or ():
        found.write(path)
    say(f"{found.energy_kcal:.6f}" if quiet and not found.failed else f"\n{found}")
    if found.failed:
        raise typer.Exit(NotConvergedError.exit_code)


@command()
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
        list[str] | None, "water, NH2, coordinates or an xyz file, may be repeated; default: water and NH2."
    ] = None,
    check: Annotated[list[str] | None, "A check, may be repeated; default: all."] = None,
    basis: Annotated[str | None, "Basis set, where the target takes one."] = None,
    xc: Annotated[str | None, "Functional of dftfd (default: pbe), method of psi4, nwchem, FILE.toml."] = None,
    json: JsonOut = False,
    output: Annotated[list[Path] | None, "Write the audit to this file, .json or .html; may be repeated."] = None,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, "Show no progress."] = False,
):
    """Compare the forces of another program with its energies.

    Forces, Hessians and dipoles are compared with finite differences, symmetry and equivalent inputs; exit code 1 if
    they disagree.
    """
    from dftfd.interop.program_targets import ProgramTarget
    from dftfd.verify.code_audit import OwnTarget, as_target
    from dftfd.verify.code_audit import audit_code as audit

    refuse_existing(output, overwrite, ".json", ".html")
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
