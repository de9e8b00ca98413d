"""The command fit: parameters of a functional that fit reaction energies."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dftfd.cli.commands import Debug, Verbose, app, messages, refuse_existing
from dftfd.cli.option_types import functional_named, with_options
from dftfd.cli.terminal import computed, say
from dftfd.errors import InputError, MissingDependencyError
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, STATE, names
from dftfd.runtime.written_numbers import as_real

OFFERED = [
    name
    for name in names(ENERGY, STATE, SEARCH)
    if OPTIONS[name].on_command and name not in ("xc", "allow_unconverged", "occupations", "smearing")
]

Names = Annotated[str, typer.Option("--parameters", help="Parameters to fit, separated by commas.")]
Validation = Annotated[str, typer.Option(help="Set that is held out: the fit ends where it gets no better.")]
Prior = Annotated[str, typer.Option(help="Standard deviations of the prior around the start: kappa=0.1,mu=0.05.")]
Bounds = Annotated[str, typer.Option(help="Lowest and highest values: kappa=0.5:0.804.")]
Record = Annotated[Path | None, typer.Option(help="Record of evaluations, from which an interrupted fit resumes.")]
Adam = Annotated[float | None, typer.Option(help="Use optax's Adam with this learning rate.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Reactions in each step of --adam, drawn with --seed.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the order of the batches.")]
Fixed = Annotated[
    str, typer.Option(help="Evaluate energies on the densities of this functional, without further SCFs.")
]
Jobs = Annotated[int, typer.Option(help="Number of processes.")]
Save = Annotated[Path | None, typer.Option(help="Write the fitted functional to this file (.json).")]


@app.command()
@with_options(*OFFERED, molecule=())
def fit(
    xc: Annotated[str, typer.Argument(help="Initial functional, also FILE.py:NAME.")],
    training: Annotated[str, typer.Argument(help="Set of reactions: its name or file, see `dftfd benchmark`.")],
    parameters: Names = "",
    of_molecule=None,
    of_run=None,
    validation: Validation = "",
    only: Annotated[str, typer.Option(help="Subsets of the training set, separated by commas.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many of its reactions.")] = None,
    basis: Annotated[str | None, typer.Option(help="Basis set; default: the set's, else def2-svp.")] = None,
    prior: Prior = "",
    bounds: Bounds = "",
    evaluations: Annotated[int, typer.Option(help="Maximum number of evaluations.")] = 20,
    adam: Adam = None,
    batch_size: Batch = None,
    seed: Seed = 0,
    record: Record = None,
    fixed_densities: Fixed = "",
    jobs: Jobs = 1,
    save: Save = None,
    name: Annotated[str, typer.Option(help="Name of the functional that --save writes.")] = "fitted",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    verbose: Verbose = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
    debug: Debug = False,
):
    """Fit parameters of a functional to reaction energies.

    Each evaluation is self-consistent, and its derivatives are exact.
    """
    from dftfd.training.fitting import fit as run_fit

    refuse_existing([save] if save else [], overwrite, ".json")
    with messages(verbose, debug):
        found = run_fit(
            functional_named(xc),
            _chosen(training, only, limit),
            parameters=[word.strip() for word in parameters.split(",") if word.strip()],
            validation=validation or None,
            basis=basis,
            prior=_pairs("prior", prior, as_real),
            bounds=_pairs("bounds", bounds, lambda text: tuple(map(_bound, text.split(":")))),
            evaluations=evaluations,
            optimiser=None if adam is None else _adam(adam),
            batch_size=batch_size,
            seed=seed,
            fixed_densities=functional_named(fixed_densities) or None,
            jobs=jobs,
            record=record,
            on_step=_say_nothing if quiet else _tell,
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
    subsets = [word.strip() for word in only.split(",") if word.strip()]
    found = found.only(subsets) if subsets else found
    return found if limit is None else found.sample(limit, 0)


def _pairs(option, words, read) -> dict[str, Any]:
    """{name: value} of 'a=1,b=2'; InputError where it is not that."""
    pairs = {}
    for word in filter(None, words.split(",")):
        name, _, value = word.partition("=")
        if name.strip() in pairs:
            raise InputError(f"--{option} {words!r}: {name.strip()} is there twice; give each once.")
        try:
            pairs[name.strip()] = read(value)
        except ValueError as error:
            raise InputError(f"--{option} {word!r}: NAME=NUMBER expected (of bounds NAME=LOWEST:HIGHEST).") from error
    return pairs


def _bound(word):
    return float(word) if word.lstrip("+-") == "inf" else as_real(word)


def _tell(step):
    of = lambda what, error: "" if error is None else f", {what} {error:.3f} kcal/mol"
    better = ", no better" if step.accepted is False else ""
    print(
        f"{step.number:4d}: loss {step.loss:.6g}{of('training', step.training)}"
        f"{of('held out', step.validation)}{better}",
        flush=True,
    )


def _say_nothing(step):
    """No line for a step."""
