"""The commands frequencies and reaction-path, which stand on second derivatives by the nuclei."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import (
    Debug,
    Overwrite,
    Verbose,
    app,
    messages,
    progress_of,
    refuse_existing,
    require_convergence,
)
from dftfd.cli.nuclei import OFFERED, File
from dftfd.cli.option_types import with_options
from dftfd.cli.terminal import say
from dftfd.errors import InputError
from dftfd.runtime.records import require_new_record

Displacements = Annotated[
    Path | None,
    typer.Option(
        help="Record of finished displacements; FILE.path.xyz holds the steps of --optimize. --restart continues from "
        "both."
    ),
]


@app.command()
@with_options(*OFFERED)
def frequencies(
    file: File,
    of_molecule,
    of_run,
    optimize: Annotated[bool, typer.Option("--optimize", help="Optimise the geometry first.")] = False,
    isotopes: Annotated[
        str, typer.Option(help="'average', or atoms from 0 and mass numbers, '1:2 2:13'; default: most abundant.")
    ] = "",
    raman: Annotated[bool, typer.Option("--raman", help="Also compute Raman activities.")] = False,
    temperature: Annotated[float, typer.Option(help="Temperature [K].")] = 298.15,
    pressure: Annotated[float, typer.Option(help="Pressure [Pa].")] = 101325.0,
    symmetry_number: Annotated[int | None, typer.Option(help="Default: that of the geometry.")] = None,
    quasi_harmonic: Annotated[
        str | None, typer.Option(help="Entropy of modes below 100 cm^-1: grimme or truhlar.")
    ] = None,
    derivatives: Annotated[
        str, typer.Option(help="Method for second derivatives: auto, response or differences.")
    ] = "auto",
    points: Annotated[int, typer.Option(help="Displaced points of the differences, 2 or 4.")] = 2,
    step: Annotated[float | None, typer.Option(help="Displacement of the differences [bohr].")] = None,
    record: Displacements = None,
    restart: Annotated[bool, typer.Option("--restart", help="Continue with the displacements of --record.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(help="Write a file; .h5 .json .molden .xyz .csv .html .png .svg .pdf. May be repeated."),
    ] = None,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute vibrations and the thermochemistry of a gas."""
    from dftfd.results.vibration_files import writer_for
    from dftfd.system.isotopes import isotopes_of_text
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import optimize as find_minimum
    from dftfd.tasks.run import run_scf

    for path in output or ():
        writer_for(path)
    refuse_existing(output or (), overwrite)
    wanted: dict[str, Any] = {"isotopes": isotopes_of_text(isotopes), "raman": raman, "method": derivatives}
    wanted |= {"points": points, "step": step, "record": record, "restart": restart}
    gas: dict[str, Any] = {"symmetry_number": symmetry_number, "quasi_harmonic": quasi_harmonic}
    _require_sensible(wanted, gas | {"temperature": temperature, "pressure": pressure})
    steps = record and record.with_name(f"{record.name}.path.xyz")
    with messages(verbose, debug):
        system = molecule(file, **of_molecule)
        _require_isotopes(system, wanted["isotopes"])
        with progress_of(system) as progress:
            if optimize:
                found = find_minimum(system, **of_run, trajectory=steps, restart=restart, progress=progress)
                require_convergence(found.converged, "geometry not converged.")
                result = found.result
            else:
                result = run_scf(system, **of_run, progress=progress)
            require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
            vibrations = result.vibrations(**wanted, progress=progress)
        of_gas = vibrations.thermochemistry(temperature, pressure, **gas)
        _tell(result, vibrations, of_gas, output or ())


def _tell(result, vibrations, of_gas, paths):
    """Print what was found, and write it to files."""
    from dftfd.results.document import Document

    document = Document({"result": result, "vibrations": vibrations, "thermochemistry": of_gas})
    say(f"\n{document}")
    for path in paths:
        vibrations.write(path, document)


def _require_isotopes(system, isotopes):
    """InputError for isotopes of atoms that are not there, or have no nucleus."""
    from dftfd.system.isotopes import masses

    real = [atom for atom, ghost in enumerate(system.ghost) if not ghost]
    masses(tuple(system.symbols[atom] for atom in real), isotopes, real)


def _require_sensible(wanted, gas):
    """InputError for arguments that second derivatives or the gas would refuse, before anything is computed."""
    from dftfd.response.hessian import METHODS, POINTS, STEP
    from dftfd.results.vibrations import KELVIN, PRESSURE, QUASI_HARMONIC, SYMMETRY_NUMBER

    kinds: dict[str, Any] = {"temperature": KELVIN, "pressure": PRESSURE, "symmetry_number": SYMMETRY_NUMBER}
    kinds |= {"quasi_harmonic": QUASI_HARMONIC, "method": METHODS, "points": POINTS, "step": STEP}
    for name, kind in kinds.items():
        kind.checked(name, (wanted | gas)[name])
    if wanted["restart"] and wanted["record"] is None:
        raise InputError("--restart needs the --record of the interrupted run.")
    if wanted["record"] is not None:
        require_new_record(wanted["record"], wanted["restart"])


@app.command("reaction-path")
@with_options(*OFFERED)
def reaction_path(
    file: File,
    of_molecule,
    of_run,
    optimize: Annotated[bool, typer.Option("--optimize", help="Search for the transition state first.")] = False,
    max_steps: Annotated[int, typer.Option(help="Maximum number of steps on each side.")] = 100,
    output: Annotated[
        list[Path] | None, typer.Option(help="Write a file; .xyz .csv .png .svg .pdf. May be repeated.")
    ] = None,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Follow the reaction path down from a transition state."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import optimize as find
    from dftfd.tasks.reaction_path import check_ending
    from dftfd.tasks.reaction_path import reaction_path as follow
    from dftfd.tasks.run import run_scf

    for path in output or ():
        check_ending(path)
    refuse_existing(output or (), overwrite)
    with messages(verbose, debug):
        system = molecule(file, **of_molecule)
        with progress_of(system) as progress:
            if optimize:
                saddle = find(system, **of_run, transition_state=True, progress=progress)
                require_convergence(saddle.converged, "transition state not converged.")
                result = saddle.result
            else:
                result = run_scf(system, **of_run, progress=progress)
            require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
            found = follow(result, max_steps=max_steps, progress=progress)
    say(f"\n{result}\n\n{found}")
    for path in output or ():
        found.write(path)
    require_convergence(found.converged, "an end of the path is not a minimum.")
