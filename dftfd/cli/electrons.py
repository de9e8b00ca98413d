"""The commands excitations, polarizability and view: how electrons answer to light and fields, how they look."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import (
    Overwrite,
    at_work,
    command,
    converged_scf,
    progress_of,
    refuse_existing,
    require_convergence,
)
from dftfd.cli.nuclei import File
from dftfd.cli.option_types import functional_named
from dftfd.cli.terminal import say
from dftfd.errors import InputError
from dftfd.runtime.arguments import require_arguments
from dftfd.runtime.files import require_picture


@command()
def excitations(
    file: File,
    of_molecule,
    of_run,
    n: Annotated[int, typer.Option("-n", "--number", help="Number of excitations.", min=1)] = 5,
    tda: Annotated[bool, "Tamm-Dancoff approximation."] = False,
    triplets: Annotated[bool, "Triplets of a closed shell."] = False,
    spin_flip: Annotated[bool, "Spin flips from a high-spin state."] = False,
    equilibrium_solvation: Annotated[bool, "Let the whole solvent respond, not only its electrons."] = False,
    output: Annotated[list[Path] | None, "Write a file; .h5 .json .html. May be repeated."] = None,
    plot: Annotated[Path | None, "Draw the absorption spectrum (extra plots)."] = None,
    overwrite: Overwrite = False,
):
    """Compute excitation energies and absorption strengths."""
    if triplets and spin_flip:
        raise InputError("--triplets and --spin-flip exclude each other; give one of them.")
    refuse_existing(output, overwrite, ".h5", ".json", ".html", exactly=True, reports=True)
    refuse_existing(plot, overwrite)
    if plot is not None:
        require_picture(plot)
    result, progress = _solved(file, of_molecule, of_run, "spin flips" if spin_flip else "excitations")
    with progress:
        spin = "triplet" if triplets else "flip" if spin_flip else None
        found = result.excitations(n, tda, spin, progress, equilibrium_solvation)
    say(f"\n{found}")
    _write(result, found, output or ())
    if plot is not None:
        found.plot(plot)
    require_convergence(found.converged.all(), "some excitations have not converged.")


def _write(result, found, paths):
    """Files of what was printed: the ground state's summary and its excitations."""
    from dftfd.results.document import Document

    document = Document({"result": result, "excitations": found})
    for path in paths:
        if path.suffix == ".h5":
            found.save(path, document)
        elif path.suffix == ".json":
            result.write(path, document=document)
        else:
            result.write(path, excitations=found, document=document)


@command()
def polarizability(
    file: File,
    of_molecule,
    of_run,
    omega: Annotated[list[float] | None, "Frequency [hartree]; may be repeated. Default: 0."] = None,
    hyper: Annotated[bool, "Also compute the static first hyperpolarisability."] = False,
):
    """Compute the polarisability, static or at frequencies."""
    from dftfd.response.polarizability import hyper_in_words, in_words
    from dftfd.results.result import SCFResult

    for frequency in omega or ():
        require_arguments(SCFResult.polarizability, omega=frequency)
    at = ["response at a frequency"] if any(omega or ()) else []
    result, progress = _solved(file, of_molecule, of_run, "static response", *at)
    with progress:
        for frequency in omega or [0.0]:
            say(f"\n{in_words(result.polarizability(frequency, progress), frequency)}")
        if hyper:
            say(f"\n{hyper_in_words(result.hyperpolarizability(progress))}")


@command()
def view(
    file: Annotated[Path, typer.Argument(help="Result, written by `dftfd run --output RESULT.h5`.")],
    excitations: Annotated[Path | None, "Its excitations, written by `dftfd excitations --output FILE.h5`."] = None,
    xc: Annotated[str | None, "Functional of the result, if a file defines it: FILE.py:NAME."] = None,
    output: Annotated[
        Path | None, "--output", "-o", "Write the page to this file instead of opening a browser."
    ] = None,
    overwrite: Overwrite = False,
):
    """Show a result in the browser.

    The page shows orbitals, density and potential on the molecule, and the report of the result.
    """
    from dftfd.response.excitations import load_excitations
    from dftfd.results.result_file import load_result

    if file.suffix.lower() != ".h5":
        what = f"dftfd run {file.name} --output {file.stem}.h5"
        raise InputError(f"{file.name!r}: view needs a result (.h5); for a molecule, compute one first: {what}.")
    refuse_existing(output, overwrite, ".html")
    result = load_result(file, functional_named(xc))
    if not sys.stderr.isatty():
        print("evaluating orbitals and potentials, some ten to thirty seconds", file=sys.stderr)
    with at_work("evaluating orbitals and potentials, some ten to thirty seconds"):
        page = result.view(None if excitations is None else load_excitations(excitations))
    if output is None:
        output = page.open()
    else:
        page.write(output, overwrite)
    say(f"{output}: {page}")


def _solved(file, of_molecule, of_run, *wanted):
    """The converged result for a file, of which properties are wanted, and a display of what follows."""
    from dftfd.system.molecule import molecule

    system = molecule(file, **of_molecule)
    with progress_of(system) as progress:
        result = converged_scf(system, of_run, progress, *wanted)
    say(f"\n{result}\n")
    return result, progress
