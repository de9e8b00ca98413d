"""The command reaction: the energy of a reaction that is written as an equation."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import (
    Debug,
    Jobs,
    Overwrite,
    Scheduler,
    Verbose,
    app,
    given_options,
    messages,
    refuse,
    refuse_existing,
)
from dftfd.cli.option_types import with_options
from dftfd.cli.terminal import say
from dftfd.cli.verdicts import OFFERED, tell_step
from dftfd.errors import InputError, NotConvergedError

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
    from dftfd.cli.batches import Display

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
        with Display(quiet) as display:
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
