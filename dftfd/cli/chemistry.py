"""Commands of one molecule: gradient, optimize, scan, frequencies and others, excitations, polarizability, view."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import (
    ONE_MOLECULE,
    Batch,
    Files,
    Outputs,
    Overwrite,
    are_many,
    at_work,
    command,
    converged_scf,
    given_options,
    progress_of,
    refuse,
    refuse_existing,
    require_convergence,
    run_batch_of,
    write_files,
)
from dftfd.cli.option_types import functional_named, whole_numbers
from dftfd.cli.terminal import say
from dftfd.errors import InputError
from dftfd.runtime.arguments import require_arguments
from dftfd.runtime.files import require_picture
from dftfd.runtime.records import require_new_record
from dftfd.system.geometry import MAX_ATOMS

File = Annotated[str, typer.Argument(help="xyz file, or coordinates such as 'H 0 0 0; H 0 0 0.74'.")]
NoGridResponse = Annotated[bool, "Neglect the motion of the quadrature grid."]


@dataclass(frozen=True)
class Excited:
    """The excited state whose energy is looked at, or none."""

    state: Annotated[int, typer.Option(min=0, help="Number of an excited state, from 1; 0: the ground state.")] = 0
    tda: Annotated[bool, "Excited states in the Tamm-Dancoff approximation."] = False
    triplets: Annotated[bool, "Triplet states of a closed shell."] = False

    @property
    def spin(self) -> str | None:
        """As `SCFResult.excitations` takes it."""
        return "triplet" if self.triplets else None

    def check(self, given, of_ground_state):
        """Raise where options of excited states and of the ground state do not go together."""
        if self.state:
            refuse(given, of_ground_state, "is for the ground state; leave it out with --state")
        else:
            refuse(given, OF_STATE - {"state"}, "is for an excited state; choose one, as in --state 1")


@dataclass(frozen=True)
class Gas:
    """Where the thermochemistry of an ideal gas is wanted."""

    temperature: Annotated[float, "Temperature of the gas [K]."] = 298.15
    pressure: Annotated[float, "Pressure of the gas [Pa]."] = 101325.0
    quasi_harmonic: Annotated[str | None, "Entropy of modes below 100 cm^-1: grimme or truhlar."] = None


OF_STATE = {field.name for field in fields(Excited)}
ONLY_ONE = {*ONE_MOLECULE, *OF_STATE, "trajectory", "transition_state", "exact_hessian"}

_ALONE = "is for one molecule; use --record and --table for a batch"


@command()
def gradient(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    *,
    numerical: Annotated[bool, "Compare with five-point differences of the energy; slow."] = False,
    excited: Excited,
    no_grid_response: NoGridResponse = False,
    outputs: Outputs,
    batch: Batch,
):
    """Compute forces on the nuclei, of a molecule or of many."""
    from dftfd.functionals import supports
    from dftfd.model.forces import nuclear_forces
    from dftfd.results.document import Document
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import MORE, roots_with_forces

    given = given_options(context)
    if are_many(files, given):
        refuse(given, {*ONE_MOLECULE, *OF_STATE, "numerical", "no_grid_response"}, _ALONE)
        run_batch_of(files, of_molecule, of_run, batch, outputs.overwrite, task="gradient")
    excited.check(given, {"numerical"})
    paths = outputs.checked()
    system = molecule(files[0], **of_molecule)
    with progress_of(system) as progress:
        if numerical:  # a density that is less converged has forces that are further off than differences
            of_run["conv_tol"] = min(1e-12, of_run["conv_tol"])
        wanted = "excited states" if excited.state else "energy differences" if numerical else "forces"
        result = converged_scf(system, of_run, progress, wanted)
        parts: dict[str, Any] = {"result": result}
        if excited.state:
            found = roots_with_forces(result, excited.state + MORE, excited.tda, excited.spin, progress)
            of_state = found.state(excited.state - 1, not no_grid_response, progress)
            parts |= {"excitations": found, "excited state": of_state}
        elif not (numerical and supports.refusal("forces", result.calculation.functional)):  # of double hybrids
            parts |= {"forces": nuclear_forces(result, not no_grid_response, progress), **_on_charges(result)}
        say(f"\n{Document(parts)}")
        if numerical:
            parts["differences"] = _by_differences(parts, system, of_run | {"guess": result}, progress)
            say(f"\n{parts['differences']}")
    write_files(result, paths, "gradient" if "forces" in parts else "energy", parts)  # QCSchema's driver


def _on_charges(result):
    """Forces on the point charges, as a part of what is printed; nothing without charges."""
    from dftfd.results.document import Said

    charges = result.calculation.surroundings.charges
    if not len(charges):
        return {}
    forces = result.point_charge_forces()
    rows = [
        f"{charge:8.4f}" + "".join(f"{component:18.10f}" for component in force)
        for charge, force in zip(charges, forces, strict=True)
    ]
    text = "\n".join(["forces on point charges / (hartree/bohr)", *rows])
    return {"forces on charges": Said(text, {"charges": charges, "forces_hartree_per_bohr": forces})}


def _by_differences(parts, system, of_run, progress):
    """Forces by differences of the energy, and how far those of the parts, where there are any, are from them."""
    from dftfd.results.document import Said, numbers
    from dftfd.tasks.energy_differences import numerical_forces

    found = numerical_forces(system, **of_run, progress=progress)
    if "forces" not in parts:
        return Said(f"by differences of the energy, {found}", numbers(found))
    off = float(abs(parts["forces"].values - found.values).max())
    return Said(
        f"by differences of the energy, {found}\nlargest deviation {off:.1e} hartree/bohr",
        numbers(found) | {"largest_deviation_hartree_per_bohr": off},
    )


@command()
def optimize(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    *,
    trajectory: Annotated[
        Path | None,
        "Extended xyz file of the steps; default: NAME.optimization.xyz for NAME.xyz.",
    ] = None,
    restart: Annotated[bool, "Continue an interrupted trajectory."] = False,
    constraints: Annotated[Path | None, "Constraints in geomeTRIC's format, atoms from 1."] = None,
    coordinates: Annotated[str, "Internal coordinates: tric, dlc, hdlc, prim, tric-p or cart."] = "tric",
    max_steps: Annotated[int, "Maximum number of steps."] = 100,
    transition_state: Annotated[bool, "Search for a transition state, starting from an exact Hessian."] = False,
    exact_hessian: Annotated[bool, "Start from an exact Hessian."] = False,
    excited: Excited,
    no_grid_response: NoGridResponse = False,
    outputs: Outputs,
    batch: Batch,
    geometries: Annotated[Path | None, "Write the final geometries of a batch to this xyz file."] = None,
):
    """Optimise the geometry of a molecule, or of many."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import optimize as find_minimum

    search: dict[str, Any] = {"coordinate_system": coordinates, "max_steps": max_steps, "constraints": constraints}
    given, search["grid_response"] = given_options(context), not no_grid_response
    if are_many(files, given) or "geometries" in given:
        refuse(given, ONLY_ONE, _ALONE)
        of_batch: Any = {"task": "optimization", "search": search, "geometries": geometries}
        run_batch_of(files, of_molecule, of_run, batch, outputs.overwrite, **of_batch)
    excited.check(given, {"transition_state", "exact_hessian"})
    paths = outputs.checked()
    trajectory = trajectory or Path(_path_name(files[0]))
    search |= {"transition_state": transition_state, "hessian": "exact" if exact_hessian else None}
    search |= {"state": excited.state, "tda": excited.tda, "spin": excited.spin}
    search |= {"trajectory": trajectory, "restart": restart}
    system = molecule(files[0], **of_molecule)
    with progress_of(system) as progress, _set_aside(trajectory, outputs.overwrite and not restart):
        found = find_minimum(system, **of_run, **search, progress=progress)
    say(f"\n{found.result}\n\n{found}\npath in {trajectory}")
    driver = "energy" if excited.state else "gradient"
    write_files(found.result, paths, driver, {"result": found.result, "geometry": found})
    require_convergence(found.converged, f"geometry not converged after {max_steps} steps.")


def _path_name(source):
    """What the path of an optimisation is called: as its file is, in the current folder."""
    from dftfd.system.geometry import electrons_of, frame_of, is_coordinate_text
    from dftfd.system.smiles import is_smiles

    if is_coordinate_text(source) or is_smiles(source):
        return "optimization.xyz"
    for of_name in (electrons_of, frame_of):
        source = (of_name(source) or (source,))[0]
    return f"{Path(source).stem}.optimization.xyz"


@contextmanager
def _set_aside(path, replaced):
    """An earlier file that may be replaced makes room, and comes back where no other has taken its place."""
    if not (replaced and path.is_file()):
        yield
        return
    from dftfd.runtime.records import locked

    with locked(path):  # not that of a run that is at work
        aside = path.rename(path.with_name(f"{path.name}.before"))
    try:
        yield
    finally:
        if path.exists():
            aside.unlink()
        else:
            aside.rename(path)


@command()
def scan(
    file: File,
    of_molecule,
    of_run,
    bond: Annotated[tuple[int, int] | None, "Two atoms whose distance is scanned, counted from 0 (O1 is 0)."] = None,
    angle: Annotated[
        tuple[int, int, int] | None, "Three atoms, counted from 0, whose angle at the second is scanned."
    ] = None,
    dihedral: Annotated[
        tuple[int, int, int, int] | None, "Four atoms, counted from 0, whose dihedral angle is scanned."
    ] = None,
    first: Annotated[float | None, "--from", "First value, angstrom or degree."] = None,
    last: Annotated[float | None, "--to", "Last value, angstrom or degree."] = None,
    steps: Annotated[int, typer.Option(help="Number of values, both ends included.", min=1)] = 10,
    relaxed: Annotated[bool, "Optimise all other coordinates at each value."] = False,
    record: Annotated[Path | None, "Record of finished points, from which --restart continues."] = None,
    restart: Annotated[bool, "Continue with the points of --record."] = False,
    constraints: Annotated[Path | None, "More constraints, in geomeTRIC's format, atoms from 1."] = None,
    max_steps: Annotated[int, "Maximum number of optimisation steps for each value."] = 100,
    output: Annotated[list[Path] | None, "Write a file; .csv .xyz .json .png .svg .pdf. May be repeated."] = None,
    overwrite: Overwrite = False,
):
    """Compute energies along a bond, angle or dihedral angle."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.scanning import FORMATS
    from dftfd.tasks.scanning import scan as scan_energies

    given = [atoms for atoms in (bond, angle, dihedral) if atoms is not None]
    if len(given) != 1 or first is None or last is None:
        raise InputError(
            "a scan needs one of --bond, --angle, --dihedral, and --from, --to; as in --bond 0 1 --from 1 --to 2."
        )
    if steps == 1 and first != last:
        raise InputError("--steps 1 is the value --from alone; give the number of values, both ends included.")
    refuse_existing(output, overwrite, *FORMATS, exactly=True)
    system = molecule(file, **of_molecule)
    with progress_of(system) as progress:
        found = scan_energies(
            system,
            **of_run,
            atoms=given[0],
            values=[first + (last - first) * k / max(1, steps - 1) for k in range(steps)],
            relaxed=relaxed,
            path=record,
            restart=restart,
            constraints=constraints,
            max_steps=max_steps,
            progress=progress,
        )
    say(f"\n{found}")
    for path in output or ():
        found.write(path)
    failed = int((~found.converged).sum())
    require_convergence(not failed, f"{failed} of {len(found.values)} points not converged.")


@command()
def interaction(
    file: File,
    of_molecule,
    of_run,
    fragments: Annotated[str, "Atoms of each fragment, from 0, '0-2; 3 4 5'; default: the bonded groups."] = "",
    charges: Annotated[str, "Charges of the fragments, '0 1'; default: all zero."] = "",
    spins: Annotated[str, "Unpaired electrons of the fragments; default: none."] = "",
    no_counterpoise: Annotated[bool, "Compute fragments in their own basis functions only."] = False,
):
    """Compute the interaction energy of fragments."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.energy_differences import connected_fragments, interaction_energy

    system = molecule(file, **of_molecule)
    parts = _atom_lists(fragments) if fragments else connected_fragments(system)
    if len(parts) < 2:
        raise InputError(_one_fragment(system.n_atoms))
    given: dict[str, Any] = {"counterpoise": not no_counterpoise}
    given |= {"charges": whole_numbers("charges", charges) or None, "spins": whole_numbers("spins", spins) or None}
    with progress_of(system) as progress:
        found = interaction_energy(system, parts, **of_run, **given, progress=progress)
    say(f"\n{found}")
    require_convergence(found.converged, "SCF of the whole or of a fragment not converged.")


def _one_fragment(n_atoms):
    """Why there is no interaction, with an example that fits the molecule."""
    if n_atoms < 2:
        return "one atom was found; an interaction has two fragments at least."
    several = lambda a, b: f"{a}-{b}" if b > a else f"{a}"
    example = f"{several(0, n_atoms // 2 - 1)}; {several(n_atoms // 2, n_atoms - 1)}"
    return f"one fragment was found, all atoms are bonded; say --fragments '{example}', atoms from 0."


def _atom_lists(text):
    """[[0, 1, 2], [3, 4]] of '0-2; 3 4'."""
    lists = []
    for part in text.split(";"):
        atoms: list[int] = []
        for word in part.replace(",", " ").split():
            first, _, last = word.partition("-")
            if not first.isdecimal() or (last or "0").isdecimal() is False or len(word) > 20:
                raise InputError(f"--fragments: {word!r} is not an atom or range of atoms; '0-2; 3 4 5' expected.")
            if int(last or first) < int(first):
                raise InputError(f"--fragments: {word!r} goes down; write {last}-{first}.")
            atoms += range(int(first), min(int(last or first), int(first) + MAX_ATOMS) + 1)
        lists.append(atoms)
    return lists


@command()
def frequencies(
    file: File,
    of_molecule,
    of_run,
    *,
    optimize: Annotated[bool, "Optimise the geometry first."] = False,
    isotopes: Annotated[str, "'average', or atoms from 0 and mass numbers, '1:2 2:13'; default: most abundant."] = "",
    raman: Annotated[bool, "Also compute Raman activities."] = False,
    gas: Gas,
    symmetry_number: Annotated[int | None, "Default: that of the geometry."] = None,
    derivatives: Annotated[str, "Method for second derivatives: auto, response or differences."] = "auto",
    points: Annotated[int, "Displaced points of the differences, 2 or 4."] = 2,
    step: Annotated[float | None, "Displacement of the differences [bohr]."] = None,
    record: Annotated[
        Path | None,
        "Record of finished displacements; FILE.path.xyz holds the steps of --optimize. --restart continues from both.",
    ] = None,
    restart: Annotated[bool, "Continue with the displacements of --record."] = False,
    output: Annotated[
        list[Path] | None, "Write a file; .h5 .json .molden .xyz .csv .html .png .svg .pdf. May be repeated."
    ] = None,
    overwrite: Overwrite = False,
):
    """Compute vibrations and the thermochemistry of a gas."""
    from dftfd.results.document import Document
    from dftfd.results.result import SCFResult
    from dftfd.results.vibrations import WRITERS, Vibrations
    from dftfd.system.isotopes import isotopes_of_text
    from dftfd.system.molecule import molecule

    refuse_existing(output, overwrite, *WRITERS, exactly=True, reports=True)
    wanted: dict[str, Any] = {"isotopes": isotopes_of_text(isotopes), "raman": raman, "method": derivatives}
    wanted |= {"points": points, "step": step, "record": record, "restart": restart}
    of_gas: dict[str, Any] = vars(gas) | {"symmetry_number": symmetry_number}
    require_arguments(SCFResult.vibrations, **wanted)
    require_arguments(Vibrations.thermochemistry, **of_gas)
    if restart and record is None:
        raise InputError("--restart needs the --record of the interrupted run.")
    if record is not None:
        require_new_record(record, restart)
    steps = record and record.with_name(f"{record.name}.path.xyz")
    system = molecule(file, **of_molecule)
    _require_isotopes(system, wanted["isotopes"])
    with progress_of(system) as progress:
        search = {"trajectory": steps, "restart": restart} if optimize else None
        result = _stationary(system, of_run, progress, search, "geometry")
        vibrations = result.vibrations(**wanted, progress=progress)
    parts = {"result": result, "vibrations": vibrations, "thermochemistry": vibrations.thermochemistry(**of_gas)}
    document = Document(parts)
    say(f"\n{document}")
    for path in output or ():
        vibrations.write(path, document)


def _stationary(system, of_run, progress, search, what):
    """The converged result whose second derivatives are wanted: where the molecule is, or where a search ends."""
    from dftfd.functionals import supports
    from dftfd.tasks.optimization import optimize as find

    if search is None:
        return converged_scf(system, of_run, progress, "second derivatives")
    with supports.wanted("second derivatives"):
        found = find(system, **of_run, **search, progress=progress)
    require_convergence(found.converged, f"{what} not converged.")
    return found.result


def _require_isotopes(system, isotopes):
    """InputError for isotopes of atoms that are not there, or have no nucleus."""
    from dftfd.system.isotopes import masses

    real = [atom for atom, ghost in enumerate(system.ghost) if not ghost]
    masses(tuple(system.symbols[atom] for atom in real), isotopes, real)


@command("reaction-path")
def reaction_path(
    file: File,
    of_molecule,
    of_run,
    optimize: Annotated[bool, "Search for the transition state first."] = False,
    max_steps: Annotated[int, "Maximum number of steps on each side."] = 100,
    output: Annotated[list[Path] | None, "Write a file; .xyz .csv .png .svg .pdf. May be repeated."] = None,
    overwrite: Overwrite = False,
):
    """Follow the reaction path down from a transition state."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.reaction_path import FORMATS
    from dftfd.tasks.reaction_path import reaction_path as follow

    refuse_existing(output, overwrite, *FORMATS, exactly=True)
    system = molecule(file, **of_molecule)
    with progress_of(system) as progress:
        search = {"transition_state": True} if optimize else None
        result = _stationary(system, of_run, progress, search, "transition state")
        found = follow(result, max_steps=max_steps, progress=progress)
    say(f"\n{result}\n\n{found}")
    for path in output or ():
        found.write(path)
    require_convergence(found.converged, "an end of the path is not a minimum.")


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
