"""The commands check, audit, show, prove, read, export, workbench and oracle: what a functional is, is it right?

The commands fit, discover and invert: a functional, or a potential, that gives what is known.
"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.chemistry import File
from dftfd.cli.commands import (
    CHECK_FAILED,
    JsonOut,
    Overwrite,
    Scheduler,
    at_work,
    command,
    given_options,
    progress_of,
    refuse,
    refuse_existing,
)
from dftfd.cli.option_types import functional_named, offered, pairs, whole_numbers, words_of
from dftfd.cli.terminal import computed, say, warn
from dftfd.cli.verdicts import functionals_of, print_report
from dftfd.errors import InputError, MissingDependencyError, shown
from dftfd.model.options import ENERGY, SEARCH, STATE
from dftfd.runtime.files import require_ending, require_picture, write_text
from dftfd.runtime.notebook import require_new
from dftfd.runtime.written_numbers import as_real

Functional = Annotated[str, typer.Argument(help="Functional, as in --xc; FILE.py:NAME for one in a file.")]


@command()
def check(
    name: Annotated[str, typer.Argument(help="Functional to compare with libxc; FILE.py:NAME for one in a file.")],
    quick: Annotated[bool, "Compare only the energy density and its derivatives (seconds)."] = False,
    values: Annotated[Path | None, "Table of points with your own values, to compare with dftfd's."] = None,
    tolerance: Annotated[float | None, "Allowed error of --values; default: 1e-10."] = None,
    json: JsonOut = False,
):
    """Compare a functional with libxc, or with your values.

    Energy density and derivatives, potential and matrix; exit code 1 if they differ.
    """
    from dftfd.verify.check import check as check_functional

    against = "libxc" if values is None else values
    with at_work(f"comparing {name} with {against}"):
        report = check_functional(functional_named(name), not quick, values=values, tolerance=tolerance)
    print_report(report, json)


@command()
def audit(
    target: Annotated[
        str,
        typer.Argument(help="Functional, or a function like PySCF's eval_xc, as module:function or FILE.py:NAME."),
    ],
    libxc: Annotated[bool, "Audit libxc's own code for this functional."] = False,
    xctype: Annotated[str, "LDA, GGA or MGGA: type of the function's input."] = "GGA",
    reference: Annotated[str | None, "Functional to compare energies and derivatives with."] = None,
    json: JsonOut = False,
):
    """Look for mistakes in the derivatives of a functional.

    The functional may be dftfd's, libxc's or your own code; exit code 1 if there are mistakes.
    """
    from dftfd.verify.audit import audit as audit_target
    from dftfd.verify.audit import import_target

    is_code = (
        (":" in target or target.lower().endswith(".mpl"))
        and not target.lower().startswith("libxc:")
        and "(" not in target
    )
    with at_work(f"auditing {target}"):
        what = import_target(target) if is_code else functional_named(target)
        report = audit_target(what, xctype=xctype, reference=reference and functional_named(reference), libxc=libxc)
    print_report(report, json)


@command()
def show(
    name: Functional,
    plot: Annotated[Path | None, "Write the enhancement factor as a picture (needs plots)."] = None,
    compare: Annotated[str | None, "Add another functional to the picture, in dashed lines."] = None,
    surface: Annotated[bool, "Add the factor over s and alpha to the picture."] = False,
    potential: Annotated[bool, "Add the potential of a helium-like density to the picture."] = False,
    prove: Annotated[bool, "Also decide the local conditions by proof."] = False,
    latex: Annotated[bool, "Print the formulas as LaTeX instead (needs SymPy)."] = False,
):
    """Show what a functional is and which conditions it meets."""
    from dftfd.verify.report_card import report_card

    if plot is None and (compare is not None or surface or potential):
        raise InputError("--compare, --surface and --potential need a picture; give --plot FILE.png.")
    if plot is not None:
        require_picture(plot)
    if latex:
        from dftfd.translate.sympy_terms import to_sympy

        for term in to_sympy(functional_named(name)):
            print(term.latex)
        return
    with at_work(f"testing {name}"):
        card = report_card(functional_named(name))
    if prove:
        from dftfd.verify.proofs import decided_conditions

        with at_work(f"proving conditions of {name}"):
            card = replace(card, proofs=decided_conditions(card.functional))
    say(card)
    if plot is not None:
        card.plot(plot, functional_named(compare), surface, potential)


@command()
def prove(
    name: Functional,
    condition: Annotated[
        list[str] | None,
        "A condition, may be repeated: ec_nonpositive, ec_scaling, uc_monotone, lieb_oxford, "
        "lieb_oxford_exc, tc_upper, tc_conjecture, ex_nonpositive, ex_bounded, ex_two_electrons. Else all.",
    ] = None,
    domain: Annotated[list[str] | None, "VARIABLE=FROM:TO, as zeta=0:1; may be repeated."] = None,
    boxes: Annotated[int, "Maximum number of boxes; beyond it, the outcome is undecided."] = 2_000_000,
    recheck: Annotated[float | None, "Recheck proofs with Arb, at most this many seconds each."] = None,
    save: Annotated[Path | None, "Write the certificate (of one condition) as JSON."] = None,
    plot: Annotated[Path | None, "Write the map (of one condition) as a picture."] = None,
):
    """Prove exact conditions, or find counterexamples.

    Local conditions, for all points of a domain.
    """
    from dftfd.verify.proofs import prove_and_report

    if save is not None:
        require_ending(save, ".json")
    if plot is not None:
        require_picture(plot)
    if not prove_and_report(functional_named(name), condition, domain, boxes, recheck, save, plot, say, at_work):
        raise typer.Exit(CHECK_FAILED)


@command()
def export(
    name: Functional,
    folder: Annotated[Path, "--output", "-o", "Folder for the files; created if missing."],
    order: Annotated[int, "Order of the highest derivatives, 0 to 4."] = 4,
    overwrite: Overwrite = False,
):
    """Write a functional and its derivatives as C."""
    from dftfd.translate.exporting import export as export_functional

    with at_work(f"deriving and writing {name}"):
        paths = export_functional(functional_named(name), folder, order, overwrite)
    for path in paths:
        say(path)


@command()
def workbench(
    name: Functional,
    other: Annotated[str | None, typer.Argument(help="Second functional, for comparison.")] = None,
    output: Annotated[Path, "--output", "-o", "The page, .html."] = Path("workbench.html"),
    overwrite: Overwrite = False,
):
    """Write a page with sliders for parameters.

    The page evaluates the functional as the sliders move. It needs no network.
    """
    from dftfd.interactive.workbench import workbench as page_of

    refuse_existing(output, overwrite, ".html")
    with at_work("translating the functional"):
        page = page_of(functional_named(name), None if other is None else functional_named(other))
    page.write(output, overwrite)
    say(f"{output}: {page}")


@command()
def oracle(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A formula, as gga_x_pbe; with --at any functional. Without it, all are listed.")
    ] = "",
    points: Annotated[str, "Kind of points: regular, polarised, extreme, below, one spin."] = "regular",
    at: Annotated[Path | None, "Your own points, in a table as for `dftfd check --values`."] = None,
    order: Annotated[int, typer.Option(min=0, max=3, help="Highest order of the derivatives of --at.")] = 2,
    digits: Annotated[
        int | None, typer.Option(min=1, max=50, help="Digits to print of --at; default: those of float64.")
    ] = None,
    output: Annotated[Path | None, "--output", "-o", "Write the table to this file (.csv)."] = None,
    overwrite: Overwrite = False,
):
    """Print energies and derivatives computed in 150 digits.

    A table of points and values, for `dftfd check --values` or other programs.
    """
    given = given_options(context)
    if at is None:
        refuse(given, {"order", "digits"}, "needs --at FILE, your own points")
    else:
        refuse(given, {"points"}, "selects stored points and excludes --at FILE")
    if at is None and not name:
        from dftfd.verify.oracle import oracle_names

        print("\n".join(oracle_names()))
        return
    refuse_existing(output, overwrite, ".csv")
    if at is None:
        from dftfd.verify.oracle import oracle as table_of

        with at_work(f"looking {name} up"):
            written = table_of(name, points).csv()
    else:
        written = _exact_table(name, at, order, digits)
    if output is None:
        print(written, end="")
    else:
        write_text(output, written)


def _exact_table(name, at, order, digits) -> str:
    """The text of a table at points of the user's own, and a warning that says what is not in its numbers."""
    from dftfd.verify.oracle import oracle_at

    with at_work(f"evaluating {name} in 150 digits"):
        table = oracle_at(functional_named(name), at, order)
    for note in table.notes:
        warn(note)
    return table.csv(digits)


@command()
def read(
    file: Annotated[Path, typer.Argument(help="FILE.mpl, a formula in the notation of libxc's sources.")],
):
    """Describe a formula in libxc's notation.

    Every command that takes a functional also takes FILE.mpl.
    """
    from dftfd.functionals.named_files import described

    say(described(file))


@command(of_run=offered(ENERGY, STATE, SEARCH, without=["xc", "allow_unconverged", "occupations", "smearing"]))
def fit(
    xc: Annotated[str, typer.Argument(help="Initial functional, also FILE.py:NAME.")],
    training: Annotated[str, typer.Argument(help="Set of reactions: its name or file, see `dftfd benchmark`.")],
    *,
    parameters: Annotated[str, "Parameters to fit, separated by commas."] = "",
    of_run,
    validation: Annotated[str, "Validation set; the fit ends when its error no longer decreases."] = "",
    only: Annotated[str, "Subsets of the training set, separated by commas."] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many of its reactions.")] = None,
    basis: Annotated[str | None, "Basis set; default: the set's, else def2-svp."] = None,
    prior: Annotated[str, "Standard deviations of the prior around the start: kappa=0.1,mu=0.05."] = "",
    bounds: Annotated[str, "Lowest and highest values: kappa=0.5:0.804, or kappa=0.5:inf."] = "",
    evaluations: Annotated[int, "Maximum number of evaluations."] = 20,
    adam: Annotated[float | None, "Use optax's Adam with this learning rate."] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Number of reactions in each step of --adam, drawn with --seed.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random batches.")] = 0,
    record: Annotated[Path | None, "Record of evaluations, from which an interrupted fit resumes."] = None,
    fixed_densities: Annotated[
        str, "Evaluate energies on the densities of this functional instead of self-consistently."
    ] = "",
    jobs: Annotated[int, "Number of processes."] = 1,
    save: Annotated[Path | None, "Write the fitted functional to this file (.json)."] = None,
    name: Annotated[str, "Name of the functional that --save writes."] = "fitted",
    overwrite: Overwrite = False,
    quiet: Annotated[bool, "Print the result only."] = False,
):
    """Fit parameters of a functional to reaction energies.

    Each evaluation is self-consistent, and its derivatives are exact.
    """
    from dftfd.training.fitting import fit as run_fit

    refuse_existing(save, overwrite, ".json")
    found = run_fit(
        functional_named(xc),
        _chosen(training, only, limit),
        parameters=words_of(parameters),
        validation=validation or None,
        basis=basis,
        prior=pairs("prior", words_of(prior), as_real, "NAME=NUMBER"),
        bounds=pairs("bounds", words_of(bounds), _bounds, "NAME=LOWEST:HIGHEST"),
        evaluations=evaluations,
        optimiser=None if adam is None else _adam(adam),
        batch_size=batch_size,
        seed=seed,
        fixed_densities=functional_named(fixed_densities) or None,
        jobs=jobs,
        record=record,
        on_step=(lambda step: None) if quiet else _tell_step,
        **of_run,
    )
    say(found)
    if not quiet:
        computed.append(found)
    if save is not None:
        found.save(save, name)


def _adam(rate):
    """Adam's rule; InputError for a rate that is none, MissingDependencyError without optax."""
    if not 0 < rate < float("inf"):
        raise InputError(f"--adam {rate}: a positive learning rate expected, such as 0.01.")
    try:
        import optax
    except ImportError as error:
        raise MissingDependencyError("--adam needs Optax: pip install 'dftfd[learned]'.") from error
    return optax.adam(rate)


def _chosen(training, only, limit):
    """The training set, or a part of it."""
    from dftfd.benchmarks import read_set

    if not only and limit is None:
        return training
    found = read_set(training)
    found = found.only(words_of(only)) if words_of(only) else found
    return found if limit is None else found.sample(limit, 0)


def _bounds(text) -> tuple[float, ...]:
    return tuple(float(word) if word.lstrip("+-") == "inf" else as_real(word) for word in text.split(":"))


def _tell_step(step):
    of = lambda what, error: "" if error is None else f", {what} {error:.3f} kcal/mol"
    better = ", no better" if step.accepted is False else ""
    print(
        f"{step.number:4d}: loss {step.loss:.6g}{of('training', step.training)}"
        f"{of('held out', step.validation)}{better}",
        flush=True,
    )


@command()
def discover(
    specification: Annotated[Path, typer.Argument(help="Specification of the search (.toml), see docs/discovery.md.")],
    folder: Annotated[Path, "Folder of the record and the results."] = Path("discovery"),
    resume: Annotated[bool, "Continue from the record in the folder."] = False,
    from_file: Annotated[Path | None, "--from", 'File of initial formulas, one {"x": ..., "c": ...} per line.'] = None,
    generations: Annotated[int | None, "Number of generations; overrides the specification."] = None,
    hours: Annotated[float | None, "Hours after which no further generation begins."] = None,
    jobs: Annotated[int, "Number of processes."] = 1,
    scheduler: Scheduler = "",
    propose_with: Annotated[str, "Program that proposes formulas, with its arguments."] = "",
    held_out: Annotated[str, "Reason to evaluate held-out reactions at the end; such evaluations are counted."] = "",
    quiet: Annotated[bool, "Print the result only."] = False,
):
    """Search for functionals that obey proved conditions.

    Formulas are proposed, fitted to reaction energies on fixed densities, and their exact conditions proved or refuted.
    """
    from dftfd.batch.processes import cluster_client
    from dftfd.discovery.running import discover as search

    with cluster_client(scheduler) as client:
        found = search(
            specification,
            folder=folder,
            resume=resume,
            candidates=from_file,
            generations=generations,
            hours=hours,
            jobs=jobs,
            client=client,
            propose_with=_words(propose_with),
            held_out=held_out,
            on_step=(lambda step: None) if quiet else _tell_generation,
        )
    say(found)
    if not quiet:
        computed.append(found)


def _words(command: str) -> list[str]:
    """Of a command line, as a shell has them."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"--propose-with {shown(command)} is not a command line: {error}.") from error


def _tell_generation(found):
    best = f"; best proved {min(f.score for f in found.front):.3f} kcal/mol" if found.front else ""
    count = found.counts
    print(
        f"{found.generations:4d}: {count['fitted']} fitted, {count['broken']} broken, {count['refuted']} refuted, "
        f"{count['proved']} proved{best}",
        flush=True,
    )


@command(of_run=["grid_level", "linear_dependence", "max_memory"])
def invert(
    file: File,
    of_molecule,
    of_run,
    target: Annotated[str, "Wave function of the density: mp2, ccsd, casscf or fci."] = "",
    active: Annotated[str, "Electrons and orbitals of casscf: 6,6."] = "",
    method: Annotated[str, "wu-yang, zhao-morrison-parr or one-orbital."] = "wu-yang",
    reference: Annotated[str, "Reference potential: fermi-amaldi, or an LDA or GGA."] = "fermi-amaldi",
    potential_basis: Annotated[
        str, "Basis of the potential: even-tempered, orbitals, or a basis set."
    ] = "even-tempered",
    smoothing: Annotated[
        float | None, "Weight of the smoothness penalty; default: the largest that density_tol allows."
    ] = None,
    density_tol: Annotated[float | None, "Largest allowed error of the density, per electron."] = None,
    homo: Annotated[
        float | None, "Energy of the highest orbital [hartree]; default: v_xc vanishes at infinity."
    ] = None,
    output: Annotated[Path | None, "Write it to this HDF5 file."] = None,
    plot: Annotated[Path | None, "Draw the potential along a line (needs plots)."] = None,
    atoms: Annotated[str, "Two atoms on the line of --plot, counted from 0."] = "0,1",
    compare: Annotated[str, "Functionals whose potentials are drawn too, separated by commas."] = "",
    density_fit: Annotated[bool, "Fit the Coulomb integrals."] = False,
    overwrite: Overwrite = False,
):
    """Find the exchange-correlation potential of a density.

    FILE is a result (.h5) with the density, or a molecule; --target then names the wave function, computed by PySCF.
    """
    from dftfd.system.molecule import molecule
    from dftfd.training.inversion import invert as run_inversion

    if output is not None:
        require_ending(output, ".h5")
    for path in filter(None, (output, plot)):
        require_new(path, overwrite)
    if plot is not None:
        require_picture(plot)
    line, others = tuple(whole_numbers("atoms", atoms)), functionals_of(compare)
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
            active=tuple(whole_numbers("active", active)) or None,
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
