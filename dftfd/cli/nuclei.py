"""The commands gradient and optimize: what the energy does as the nuclei move."""

from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import Debug, Verbose, app, messages, progress_of, require_convergence
from dftfd.cli.option_types import with_options
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, names

File = Annotated[str, typer.Argument(help="xyz file, or coordinates such as 'H 0 0 0; H 0 0 0.74'.")]
NoGridResponse = Annotated[
    bool, typer.Option("--no-grid-response", help="Leave out the motion of the quadrature grid.")
]
OFFERED = [
    name
    for name in (*names(ENERGY, STATE, START, SEARCH), "max_memory")
    if OPTIONS[name].on_command and name != "allow_unconverged"
]


@app.command()
@with_options(*OFFERED)
def gradient(
    file: File,
    of_molecule,
    of_run,
    numerical: Annotated[
        bool, typer.Option("--numerical", help="Compare with five-point differences of the energy; slow.")
    ] = False,
    no_grid_response: NoGridResponse = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute the energy's gradient by the positions of the nuclei, as forces."""
    import numpy as np

    from dftfd.model.forces import nuclear_forces
    from dftfd.system.molecule import molecule
    from dftfd.tasks.numerical_forces import numerical_forces
    from dftfd.tasks.run import run_scf

    with messages(verbose, debug):
        system = molecule(file, **of_molecule)
        with progress_of(system) as progress:
            if numerical:  # a density that is less converged has forces that are further off than differences
                of_run["conv_tol"] = min(1e-12, of_run["conv_tol"])
            result = run_scf(system, **of_run, progress=progress)
            require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
            forces = nuclear_forces(result, not no_grid_response, progress)
            print(f"\n{result}\n\n{forces}")
            if numerical:
                differences = numerical_forces(system, **of_run | {"guess": result}, progress=progress)
                print(f"\nby differences of the energy, {differences}")
                print(f"largest deviation {np.abs(forces.values - differences.values).max():.1e} hartree/bohr")


@app.command()
@with_options(*OFFERED)
def optimize(
    file: File,
    of_molecule,
    of_run,
    trajectory: Annotated[
        Path, typer.Option(help="Each step is written to this file in extended xyz format, as it is done.")
    ] = Path("optimization.xyz"),
    restart: Annotated[bool, typer.Option("--restart", help="Go on with an interrupted trajectory.")] = False,
    constraints: Annotated[Path | None, typer.Option(help="File of constraints in geomeTRIC's format.")] = None,
    coordinates: Annotated[
        str, typer.Option(help="Internal coordinates: tric, dlc, hdlc, prim, tric-p or cart.")
    ] = "tric",
    max_steps: Annotated[int, typer.Option(help="Largest number of steps.")] = 100,
    no_grid_response: NoGridResponse = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Optimise the geometry of a molecule."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import optimize as find_minimum

    with messages(verbose, debug):
        system = molecule(file, **of_molecule)
        with progress_of(system) as progress:
            found = find_minimum(
                system,
                **of_run,
                trajectory=trajectory,
                restart=restart,
                constraints=constraints,
                coordinate_system=coordinates,
                max_steps=max_steps,
                grid_response=not no_grid_response,
                progress=progress,
            )
    print(f"\n{found.result}\n\n{found}\npath in {trajectory}")
    require_convergence(found.converged, f"geometry not converged after {max_steps} steps.")
