"""The commands gradient and optimize: what the energy does as the nuclei move."""

import inspect
import sys
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import NOT_CONVERGED, Debug, Verbose, _heading, _messages, _progress, app, run

FILE = inspect.Parameter(
    "file",
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    annotation=Annotated[str, typer.Argument(help="xyz file, or coordinates such as 'H 0 0 0; H 0 0 0.74'.")],
)
MOLECULE = ("basis", "charge", "spin", "unit", "cartesian")
SETTINGS = (
    *("xc", "method", "grid_level", "no_density_fit", "conv_tol", "max_cycles"),
    *("convergence", "level_shift", "damping", "guess", "smearing"),
)


def _with_options_of_run(command):
    """The command with `run`'s options for molecule and calculation before its own, handed over as two mappings."""
    own = list(inspect.signature(command).parameters.values())[2:]
    shared = [FILE, *(inspect.signature(run).parameters[name] for name in (*MOLECULE, *SETTINGS))]

    @wraps(command)
    def with_options(**given):
        molecule = {name: given.pop(name) for name in MOLECULE}
        settings = {name: given.pop(name) for name in SETTINGS}
        settings["density_fit"] = not settings.pop("no_density_fit")
        settings["smearing"] = settings["smearing"] or None
        return command({"source": given.pop("file")} | molecule, settings, **given)

    with_options.__signature__ = inspect.Signature([*shared, *own])
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*shared, *own)}
    return with_options


@app.command()
@_with_options_of_run
def gradient(
    molecule_options,
    settings,
    numerical: Annotated[
        bool, typer.Option("--numerical", help="Compare with five-point differences of the energy; slow.")
    ] = False,
    no_grid_response: Annotated[
        bool, typer.Option("--no-grid-response", help="Leave out the motion of the quadrature grid.")
    ] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute the energy's gradient by the positions of the nuclei, as forces."""
    import numpy as np

    from dftfd.forces import nuclear_forces
    from dftfd.molecule import molecule
    from dftfd.numerical_forces import numerical_forces
    from dftfd.run import run_scf

    with _messages(verbose, debug):
        system = molecule(**molecule_options)
        with _progress(False) as progress:
            progress.note(_heading(system))
            if numerical:  # a density that is less converged has forces that are further off than differences
                settings["conv_tol"] = min(1e-12, settings["conv_tol"])
            result = run_scf(system, **settings, progress=progress)
            _require_solution(result)
            forces = nuclear_forces(result, not no_grid_response, progress)
            print(f"\n{result}\n\n{forces}")
            if numerical:
                differences = numerical_forces(system, **settings | {"guess": result}, progress=progress)
                print(f"\nby differences of the energy, {differences}")
                print(f"largest deviation {np.abs(forces.values - differences.values).max():.1e} hartree/bohr")


@app.command()
@_with_options_of_run
def optimize(
    molecule_options,
    settings,
    trajectory: Annotated[
        Path, typer.Option(help="Each step is written to this file in extended xyz format, as it is done.")
    ] = Path("optimization.xyz"),
    restart: Annotated[bool, typer.Option("--restart", help="Go on with an interrupted trajectory.")] = False,
    constraints: Annotated[Path | None, typer.Option(help="File of constraints in geomeTRIC's format.")] = None,
    coordinates: Annotated[
        str, typer.Option(help="Internal coordinates: tric, dlc, hdlc, prim, tric-p or cart.")
    ] = "tric",
    max_steps: Annotated[int, typer.Option(help="Largest number of steps.")] = 100,
    no_grid_response: Annotated[
        bool, typer.Option("--no-grid-response", help="Leave out the motion of the quadrature grid.")
    ] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Optimise the geometry of a molecule."""
    from dftfd.molecule import molecule
    from dftfd.optimization import optimize as find_minimum

    with _messages(verbose, debug):
        system = molecule(**molecule_options)
        with _progress(False) as progress:
            progress.note(_heading(system))
            found = find_minimum(
                system,
                **settings,
                trajectory=trajectory,
                restart=restart,
                constraints=constraints,
                coordinate_system=coordinates,
                max_steps=max_steps,
                grid_response=not no_grid_response,
                progress=progress,
            )
    print(f"\n{found.result}\n\n{found}\npath in {trajectory}")
    if not found.converged:
        print(f"dftfd: error: geometry not converged after {max_steps} steps.", file=sys.stderr)
        raise typer.Exit(NOT_CONVERGED)


def _require_solution(result):
    if not result.converged:
        print(f"dftfd: error: SCF not converged after {result.cycles} cycles.", file=sys.stderr)
        raise typer.Exit(NOT_CONVERGED)
