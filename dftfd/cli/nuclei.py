"""The commands gradient, optimize, scan, interaction, frequencies and reaction-path: the energy as nuclei move."""

from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import (
    ONE_MOLECULE,
    Debug,
    Files,
    Jobs,
    Json,
    Output,
    Overwrite,
    Record,
    ReportFile,
    Scheduler,
    Table,
    Verbose,
    app,
    are_many,
    given_options,
    messages,
    output_files,
    progress_of,
    refuse,
    refuse_batch_files,
    refuse_existing,
    require_convergence,
    run_batch_of,
    write_files,
)
from dftfd.cli.option_types import with_options
from dftfd.cli.terminal import say
from dftfd.errors import InputError
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, names
from dftfd.runtime.records import require_new_record
from dftfd.runtime.written_numbers import as_whole, separated
from dftfd.system.geometry import MAX_ATOMS

File = Annotated[str, typer.Argument(help="xyz file, or coordinates such as 'H 0 0 0; H 0 0 0.74'.")]
NoGridResponse = Annotated[
    bool, typer.Option("--no-grid-response", help="Leave out the motion of the quadrature grid.")
]
Bond = Annotated[tuple[int, int] | None, typer.Option(help="Two atoms, from 0 (O1 is 0), whose distance is scanned.")]
Angle = Annotated[
    tuple[int, int, int] | None, typer.Option(help="Three atoms, from 0, whose angle at the second is scanned.")
]
Dihedral = Annotated[
    tuple[int, int, int, int] | None, typer.Option(help="Four atoms, from 0, whose dihedral angle is scanned.")
]
State = Annotated[int, typer.Option(min=0, help="Number of an excited state, from 1; 0: the ground state.")]
Tda = Annotated[bool, typer.Option("--tda", help="Excited states in the Tamm-Dancoff approximation.")]
Triplets = Annotated[bool, typer.Option("--triplets", help="Excited states that are triplets of a closed shell.")]
Trajectory = Annotated[
    Path | None,
    typer.Option(help="Extended xyz file of the steps, as they are done; default: NAME.optimization.xyz of NAME.xyz."),
]
ExactHessian = Annotated[bool, typer.Option("--exact-hessian", help="Start from an exact Hessian.")]
Geometries = Annotated[Path | None, typer.Option(help="Write the final geometries of a batch to this xyz file.")]
OF_STATE = {"state", "tda", "triplets"}
ONLY_ONE = {*ONE_MOLECULE, *OF_STATE, "trajectory", "transition_state", "exact_hessian"}
OFFERED = [
    name
    for name in (*names(ENERGY, STATE, START, SEARCH), "max_memory")
    if OPTIONS[name].on_command and name != "allow_unconverged"
]


_ALONE = "is for one molecule; a batch has --record and --table"


@app.command()
@with_options(*OFFERED)
def gradient(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    numerical: Annotated[
        bool, typer.Option("--numerical", help="Compare with five-point differences of the energy; slow.")
    ] = False,
    state: State = 0,
    tda: Tda = False,
    triplets: Triplets = False,
    no_grid_response: NoGridResponse = False,
    json: Json = None,
    output: Output = None,
    report: ReportFile = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    record: Record = None,
    scheduler: Scheduler = "",
    table: Table = None,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute forces on the nuclei, of a molecule or of many."""
    from dftfd.functionals import supports
    from dftfd.model.forces import nuclear_forces
    from dftfd.results.document import Document
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import MORE, roots_with_forces
    from dftfd.tasks.run import run_scf

    given = given_options(context)
    if are_many(files, given):
        refuse(given, {*ONE_MOLECULE, *OF_STATE, "numerical", "no_grid_response"}, _ALONE)
        refuse_batch_files(record, overwrite, table)
        run_batch_of(files, of_molecule, of_run, jobs, record, scheduler, verbose, debug, task="gradient", table=table)
    _check_state(state, given, {"numerical"})
    outputs = output_files(json, report, output, overwrite)
    with messages(verbose, debug):
        system = molecule(files[0], **of_molecule)
        with progress_of(system) as progress:
            if numerical:  # a density that is less converged has forces that are further off than differences
                of_run["conv_tol"] = min(1e-12, of_run["conv_tol"])
            with supports.wanted("excited states" if state else "energy differences" if numerical else "forces"):
                result = run_scf(system, **of_run, progress=progress)
            require_convergence(result.converged, f"SCF not converged after {result.cycles} cycles.")
            if state:
                found = roots_with_forces(result, state + MORE, tda, "triplet" if triplets else None, progress)
                of_state = found.state(state - 1, not no_grid_response, progress)
                parts: dict[str, Any] = {"result": result, "excitations": found, "excited state": of_state}
            elif numerical and supports.refusal("forces", result.calculation.functional):  # of double hybrids
                parts = {"result": result}
            else:
                forces = nuclear_forces(result, not no_grid_response, progress)
                parts = {"result": result, "forces": forces, **_on_charges(result)}
            say(f"\n{Document(parts)}")
            if numerical:
                parts["differences"] = _by_differences(parts, system, of_run | {"guess": result}, progress)
                say(f"\n{parts['differences']}")
    write_files(result, outputs, "gradient" if "forces" in parts else "energy", parts)  # QCSchema's driver


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


@app.command()
@with_options(*OFFERED)
def optimize(
    context: typer.Context,
    files: Files,
    of_molecule,
    of_run,
    trajectory: Trajectory = None,
    restart: Annotated[bool, typer.Option("--restart", help="Continue an interrupted trajectory.")] = False,
    constraints: Annotated[Path | None, typer.Option(help="Constraints in geomeTRIC's format, atoms from 1.")] = None,
    coordinates: Annotated[
        str, typer.Option(help="Internal coordinates: tric, dlc, hdlc, prim, tric-p or cart.")
    ] = "tric",
    max_steps: Annotated[int, typer.Option(help="Maximum number of steps.")] = 100,
    transition_state: Annotated[
        bool, typer.Option("--transition-state", help="Search for a transition state, starting from an exact Hessian.")
    ] = False,
    exact_hessian: ExactHessian = False,
    state: State = 0,
    tda: Tda = False,
    triplets: Triplets = False,
    no_grid_response: NoGridResponse = False,
    json: Json = None,
    output: Output = None,
    report: ReportFile = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    record: Record = None,
    scheduler: Scheduler = "",
    table: Table = None,
    geometries: Geometries = None,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Optimise the geometry of a molecule, or of many."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.optimization import optimize as find_minimum

    search: dict[str, Any] = {"coordinate_system": coordinates, "max_steps": max_steps, "constraints": constraints}
    given, search["grid_response"] = given_options(context), not no_grid_response
    if are_many(files, given) or "geometries" in given:
        refuse(given, ONLY_ONE, _ALONE)
        refuse_batch_files(record, overwrite, table, geometries)
        of_batch: Any = {"task": "optimization", "search": search, "geometries": geometries, "table": table}
        run_batch_of(files, of_molecule, of_run, jobs, record, scheduler, verbose, debug, **of_batch)
    _check_state(state, given, {"transition_state", "exact_hessian"})
    outputs = output_files(json, report, output, overwrite)
    trajectory = trajectory or Path(_path_name(files[0]))
    search |= {"transition_state": transition_state, "hessian": "exact" if exact_hessian else None}
    spin = "triplet" if triplets else None
    search |= {"trajectory": trajectory, "restart": restart, "state": state, "tda": tda, "spin": spin}
    with messages(verbose, debug):
        system = molecule(files[0], **of_molecule)
        with progress_of(system) as progress, _set_aside(trajectory, overwrite and not restart):
            found = find_minimum(system, **of_run, **search, progress=progress)
    say(f"\n{found.result}\n\n{found}\npath in {trajectory}")
    write_files(found.result, outputs, "energy" if state else "gradient", {"result": found.result, "geometry": found})
    require_convergence(found.converged, f"geometry not converged after {max_steps} steps.")


def _check_state(state, given, of_ground_state):
    """Raise where options of excited states and of the ground state do not go together."""
    if state:
        refuse(given, of_ground_state, "is of the ground state; leave it out with --state")
    else:
        refuse(given, OF_STATE - {"state"}, "is of an excited state; say which one, as in --state 1")


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


@app.command()
@with_options(*OFFERED)
def scan(
    context: typer.Context,
    file: File,
    of_molecule,
    of_run,
    bond: Bond = None,
    angle: Angle = None,
    dihedral: Dihedral = None,
    first: Annotated[float | None, typer.Option("--from", help="First value, angstrom or degree.")] = None,
    last: Annotated[float | None, typer.Option("--to", help="Last value, angstrom or degree.")] = None,
    steps: Annotated[int, typer.Option(help="Number of values, both ends included.", min=1)] = 10,
    relaxed: Annotated[bool, typer.Option("--relaxed", help="Optimise all other coordinates at each value.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Record of finished points, from which --restart continues.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Continue with the points of --record.")] = False,
    constraints: Annotated[
        Path | None, typer.Option(help="More constraints, in geomeTRIC's format, atoms from 1.")
    ] = None,
    max_steps: Annotated[int, typer.Option(help="Maximum number of steps at a value.")] = 100,
    output: Annotated[
        list[Path] | None, typer.Option(help="Write a file; .csv .xyz .json .png .svg .pdf. May be repeated.")
    ] = None,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute energies along a bond, angle or dihedral angle."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.scanning import scan as scan_energies

    given = [atoms for atoms in (bond, angle, dihedral) if atoms is not None]
    if len(given) != 1 or first is None or last is None:
        raise InputError(
            "a scan needs one of --bond, --angle, --dihedral, and --from, --to; as in --bond 0 1 --from 1 --to 2."
        )
    _check_scan_outputs(output or (), overwrite)
    with messages(verbose, debug):
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


@app.command()
@with_options(*OFFERED)
def interaction(
    file: File,
    of_molecule,
    of_run,
    fragments: Annotated[
        str,
        typer.Option(help="Atoms of each fragment, from 0, '0-2; 3 4 5'; default: the bonded groups."),
    ] = "",
    charges: Annotated[str, typer.Option(help="Charges of the fragments, '0 1'; default: all zero.")] = "",
    spins: Annotated[str, typer.Option(help="Unpaired electrons of the fragments; default: none.")] = "",
    no_counterpoise: Annotated[
        bool, typer.Option("--no-counterpoise", help="Compute fragments in their own basis functions only.")
    ] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compute the interaction energy of fragments."""
    from dftfd.system.molecule import molecule
    from dftfd.tasks.energy_differences import connected_fragments, interaction_energy

    with messages(verbose, debug):
        system = molecule(file, **of_molecule)
        parts = _atom_lists(fragments) if fragments else connected_fragments(system)
        if len(parts) < 2:
            raise InputError(_one_fragment(system.n_atoms))
        with progress_of(system) as progress:
            given = {"charges": _numbers(charges), "spins": _numbers(spins)}
            found = interaction_energy(
                system, parts, **of_run, **given, counterpoise=not no_counterpoise, progress=progress
            )
    say(f"\n{found}")
    require_convergence(found.converged, "SCF of the whole or of a fragment not converged.")


def _one_fragment(n_atoms):
    """Why there is no interaction, with an example that fits the molecule."""
    if n_atoms < 2:
        return "one atom was found; an interaction has two fragments at least."
    several = lambda a, b: f"{a}-{b}" if b > a else f"{a}"
    example = f"{several(0, n_atoms // 2 - 1)}; {several(n_atoms // 2, n_atoms - 1)}"
    return f"one fragment was found, all atoms are bonded; say --fragments '{example}', atoms from 0."


def _check_scan_outputs(paths, overwrite):
    """Raise, before anything is computed, where a file of a scan can't be written."""
    from dftfd.runtime.files import ENDINGS, require_matplotlib
    from dftfd.tasks.scanning import check_ending

    for path in paths:
        check_ending(path)
        if path.suffix in ENDINGS:
            require_matplotlib()
    refuse_existing(paths, overwrite)


def _atom_lists(text):
    """[[0, 1, 2], [3, 4]] of '0-2; 3 4'."""
    lists = []
    for part in text.split(";"):
        atoms: list[int] = []
        for word in part.replace(",", " ").split():
            first, _, last = word.partition("-")
            if not first.isdecimal() or (last or "0").isdecimal() is False or len(word) > 20:
                raise InputError(f"--fragments: {word!r} is not an atom or range of atoms; '0-2; 3 4 5' expected.")
            atoms += range(int(first), min(int(last or first), int(first) + MAX_ATOMS) + 1)
        lists.append(atoms)
    return lists


def _numbers(text):
    """Whole numbers between blanks; None for none."""
    try:
        return [as_whole(word) for word in separated(text)] or None
    except ValueError as error:
        raise InputError(f"{text!r}: whole numbers between blanks expected, such as '0 1'.") from error


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
    from dftfd.functionals import supports
    from dftfd.results.vibrations import writer_for
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
        with progress_of(system) as progress, supports.wanted("second derivatives"):
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
    from dftfd.functionals import supports
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
        with progress_of(system) as progress, supports.wanted("second derivatives"):
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
