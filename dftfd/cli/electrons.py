"""The commands excitations, polarizability and view: how electrons answer to light and fields, how they look."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import (
    Debug,
    Verbose,
    app,
    at_work,
    messages,
    progress_of,
    refuse_existing,
    require_convergence,
)
from dftfd.cli.nuclei import OFFERED, File
from dftfd.cli.option_types import functional_named, with_options
from dftfd.cli.terminal import say
from dftfd.errors import InputError
from dftfd.runtime.files import require_ending


@app.command()
@with_options(*OFFERED)
def excitations(
    file: File,
    of_molecule,
    of_run,
    n: Annotated[int, typer.Option("-n", "--number", help="How many excitations.", min=1)] = 5,
    tda: Annotated[bool, typer.Option("--tda", help="Tamm-Dancoff approximation.")] = False,
    triplets: Annotated[bool, typer.Option("--triplets", help="Triplets of a closed shell.")] = False,
    spin_flip: Annotated[bool, typer.Option("--spin-flip", help="Spin flips from a high-spin state.")] = False,
    equilibrium_solvation: Annotated[
        bool, typer.Option("--equilibrium-solvation", help="Let the whole solvent respond, not only its electrons.")
    ] = False,
    output: Annotated[list[Path] | None, typer.Option(help="Write a file; .h5 .json .html. May be repeated.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the absorption spectrum (extra plots).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute excitation energies and absorption strengths."""
    if triplets and spin_flip:
        raise InputError("--triplets and --spin-flip are two kinds of excitations; give one of them.")
    _require_outputs(output, plot, overwrite)
    with messages(verbose, debug):
        result, progress = _solved(file, of_molecule, of_run, "spin flips" if spin_flip else "excitations")
        with progress:
            spin = "triplet" if triplets else "flip" if spin_flip else None
            found = result.excitations(n, tda, spin, progress, equilibrium_solvation)
        say(f"\n{found}")
        _write(result, found, output or ())
        if plot is not None:
            found.plot(plot)
    require_convergence(found.converged.all(), "some excitations have not converged.")


def _require_outputs(output, plot, overwrite):
    """Raise before anything is computed where a file of excitations or a picture of them could not be written."""
    from dftfd.runtime.files import require_matplotlib, require_picture

    for path in output or ():
        require_ending(path, ".h5", ".json", ".html", exactly=True)
        if path.suffix == ".html":
            require_matplotlib()
    refuse_existing([*(output or ()), *([plot] if plot else [])], overwrite)
    if plot is not None:
        require_picture(plot)


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


@app.command()
@with_options(*OFFERED)
def polarizability(
    file: File,
    of_molecule,
    of_run,
    omega: Annotated[list[float] | None, typer.Option(help="Frequency [hartree]; may be repeated. Default: 0.")] = None,
    hyper: Annotated[bool, typer.Option("--hyper", help="Also compute the static first hyperpolarisability.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute the polarisability, static or at frequencies."""
    from dftfd.response.polarizability import FREQUENCY, hyper_in_words, in_words

    with messages(verbose, debug):
        for frequency in omega or ():
            FREQUENCY.checked("omega", frequency)
        at = ["response at a frequency"] if any(omega or ()) else []
        result, progress = _solved(file, of_molecule, of_run, "static response", *at)
        with progress:
            for frequency in omega or [0.0]:
                say(f"\n{in_words(result.polarizability(frequency, progress), frequency)}")
            if hyper:
                say(f"\n{hyper_in_words(result.hyperpolarizability(progress))}")


@app.command()
def view(
    file: Annotated[Path, typer.Argument(help="Result, written by `dftfd run --output RESULT.h5`.")],
    excitations: Annotated[
        Path | None, typer.Option(help="Its excitations, written by `dftfd excitations --output FILE.h5`.")
    ] = None,
    xc: Annotated[
        str | None, typer.Option(help="Functional of the result, if a file defines it: FILE.py:NAME.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the page to this file instead of opening a browser.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Show a result in the browser.

    The molecule with orbitals, density and potential to turn, and its report.
    """
    from dftfd.response.excitations import load_excitations
    from dftfd.results.result_file import load_result

    with messages(verbose, debug):
        if file.suffix.lower() != ".h5":
            what = f"dftfd run {file.name} --output {file.stem}.h5"
            raise InputError(f"{file.name!r}: view shows results, .h5; for a molecule compute one first: {what}.")
        refuse_existing([output] if output else [], overwrite, ".html")
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
    from dftfd.functionals import supports
    from dftfd.system.molecule import molecule
    from dftfd.tasks.run import run_scf

    system = molecule(file, **of_molecule)
    with progress_of(system) as progress, supports.wanted(*wanted):
        result = run_scf(system, **of_run, progress=progress)
    require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
    say(f"\n{result}\n")
    return result, progress
