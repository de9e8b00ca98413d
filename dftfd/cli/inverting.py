"""The command invert: the exchange-correlation potential of a density."""

from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import Debug, Verbose, app, at_work, messages, progress_of
from dftfd.cli.nuclei import File
from dftfd.cli.option_types import functional_named, with_options
from dftfd.cli.terminal import say
from dftfd.cli.verdicts import functionals_of
from dftfd.errors import InputError
from dftfd.runtime.files import require_ending, require_picture
from dftfd.runtime.notebook import require_new
from dftfd.runtime.written_numbers import as_whole, separated

OFFERED = "grid_level", "linear_dependence", "max_memory"

Target = Annotated[str, typer.Option(help="Wave function that has the density: mp2, ccsd, casscf or fci.")]
Active = Annotated[str, typer.Option(help="Electrons and orbitals of casscf: 6,6.")]
Method = Annotated[str, typer.Option(help="wu-yang, zhao-morrison-parr or one-orbital.")]
Reference = Annotated[str, typer.Option(help="What the potential begins with: fermi-amaldi, or an LDA or GGA.")]
Functions = Annotated[str, typer.Option(help="Functions of the potential: even-tempered, orbitals, or a basis set.")]
Smoothing = Annotated[float | None, typer.Option(help="Weight of smoothness; default: as much as density_tol allows.")]
Tolerance = Annotated[
    float | None, typer.Option("--density-tol", help="Largest allowed error of the density, per electron.")
]
Homo = Annotated[float | None, typer.Option(help="Energy of the highest orbital [hartree]; default: 0 far away.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the potential along a line (needs plots).")]
Atoms = Annotated[str, typer.Option(help="Two atoms on that line, from 0.")]
Compare = Annotated[str, typer.Option(help="Functionals whose potentials are drawn too, separated by commas.")]


@app.command()
@with_options(*OFFERED)
def invert(
    file: File,
    of_molecule,
    of_run,
    target: Target = "",
    active: Active = "",
    method: Method = "wu-yang",
    reference: Reference = "fermi-amaldi",
    potential_basis: Functions = "even-tempered",
    smoothing: Smoothing = None,
    density_tol: Tolerance = None,
    homo: Homo = None,
    output: Annotated[Path | None, typer.Option(help="Write it to this HDF5 file.")] = None,
    plot: Plot = None,
    atoms: Atoms = "0,1",
    compare: Compare = "",
    density_fit: Annotated[bool, typer.Option("--density-fit", help="Fit the Coulomb integrals.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Find the exchange-correlation potential of a density.

    FILE is a result, .h5, whose density it is, or a molecule with --target, a wave function that PySCF computes.
    """
    from dftfd.system.molecule import molecule
    from dftfd.training.inversion import invert as run_inversion

    if output is not None:
        require_ending(output, ".h5")
    for path in filter(None, (output, plot)):
        require_new(path, overwrite)
    if plot is not None:
        require_picture(plot)
    line, others = _numbers("atoms", atoms), functionals_of(compare)
    with messages(verbose, debug):
        if bool(target) == file.lower().endswith(".h5"):
            raise InputError("give a result, FILE.h5, or a molecule with --target: mp2, ccsd, casscf or fci.")
        if target:
            density, system = target, molecule(file, **of_molecule)
        else:
            density, system, of_run = _of_result(file, of_run)
        with progress_of(system) as progress, at_work("inverting"):
            found = run_inversion(
                system,
                density,
                method=method,
                reference=functional_named(reference),
                potential_basis=potential_basis,
                smoothing=smoothing,
                density_tol=density_tol,
                homo=homo,
                active=_numbers("active", active) or None,
                **of_run | {"progress": progress, "density_fit": density_fit},
            )
        say(f"\n{found}")
        if output is not None:
            found.save(output)
        if plot is not None:
            found.plot(plot, line, others)


def _of_result(file, of_run):
    """(result, molecule, options) of a result's file, which brings its grid along."""
    from dftfd.results.result_file import load_result

    result = load_result(file)
    return result, result.molecule, {"max_memory": of_run["max_memory"]}


def _numbers(option, words) -> tuple[int, ...]:
    try:
        return tuple(as_whole(word) for word in separated(words))
    except ValueError as error:
        raise InputError(f"--{option} {words!r}: whole numbers between commas expected, such as 6,6.") from error
