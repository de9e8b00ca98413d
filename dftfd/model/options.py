"""The options of a calculation, each said once: name, default, meaning, check, and how to write it as text.

Whoever has to know them reads this dataclass: the signature and the help of `run_scf`, the identity of checkpoints, the
files of results, the command line, batches, QCSchema, ASE, geometry optimisation. A new option is a field here, and
the line where it takes effect.
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from dftfd.errors import InputError, shown
from dftfd.model import option_values as values
from dftfd.runtime.arguments import (
    Kind,
    anything,
    array,
    bound,
    choice,
    kind_of,
    number,
    optional,
    refuse_unknown,
    whole,
)
from dftfd.runtime.json_reader import as_json
from dftfd.scf.convergence import CONV_TOL, LINEAR_DEPENDENCE, MAX_CYCLES, STRATEGIES, Convergence, Strategy

ENERGY, STATE, START, SEARCH, RUN = "energy", "state", "start", "search", "run"
"""What an option decides: the energy of a density, which of its solutions, where the search for it begins, how it goes
on and what counts as an answer; or only what happens around the calculation (files, memory, messages)."""


@dataclass(frozen=True)
class Option:
    """What there is to know of an option besides its name, type and default.

    decides: ENERGY, STATE, ...   meaning: in words, with the unit.   in_python: what else a call from Python may give.
    of_text: text -> value, for the command line, where the text is not the value.   in_files, on_command: whether
    documents and files may hold it, and the command line say it.   several: what it is called there where it is given
    once for each of several values.   kind, type, default: of the field.
    """

    decides: str
    meaning: str
    in_python: str = ""
    of_text: Callable[[str], Any] | None = None
    in_files: bool = True
    on_command: bool = True
    several: str = ""
    kind: Kind = anything
    type: Any = Any
    default: Any = None

    def differs(self, value) -> bool:
        """Whether a value is not the default."""
        if self.default is None or not isinstance(value, type(self.default)):
            return value is not self.default
        return value != self.default

    def read(self, name: str, words: str):
        """The value that stands as text on the command line; InputError where it is none."""
        return Kind(self.kind.expected, self.of_text or self.kind.convert).checked(name, words)


# -------------------------------------------------------------------------------------------------------- the options


@dataclass(frozen=True, eq=False, repr=False)
class Options:
    """The options of `run_scf`, checked; what of them only a molecule can tell is checked with it."""

    xc: Annotated[
        Any,
        Option(
            ENERGY,
            "Name of a functional ('pbe', 'b3lyp', 'lda,vwn', '0.25*HF + 0.75*PBE, PBE'); 'hf' is Hartree-Fock; see "
            "`dftfd list`. On the command line also FILE.py:NAME, of a file of code that is executed.",
            "a Functional.",
        ),
    ] = "pbe"
    method: Annotated[
        str,
        choice("auto", "RKS", "UKS", "ROKS"),
        Option(ENERGY, "RKS, UKS, ROKS, or auto: restricted for spin 0, unrestricted otherwise."),
    ] = "auto"
    _: KW_ONLY
    grid_level: Annotated[int, whole(0, 9), Option(ENERGY, "Quality of the quadrature grid, 0 to 9.")] = 3
    nlc_grid_level: Annotated[
        int | None,
        optional(whole(0, 9)),
        Option(
            ENERGY,
            "The same for the double integrals of nonlocal functionals, whose cost grows with the square of the number "
            "of points. Default: 1 for VV10 and rVV10 (within 1e-6 hartree per atom of level 3), 3 for all others.",
        ),
    ] = None
    density_fit: Annotated[
        bool,
        Option(
            ENERGY,
            "Fit the Coulomb and exchange integrals in the auxiliary basis that PySCF chooses; otherwise exact.",
        ),
    ] = True
    auxiliary_basis: Annotated[
        str | None,
        Option(
            ENERGY,
            "Fitting functions of density_fit, such as def2-universal-jkfit. Default: PySCF's choice for the orbital "
            "basis set, a Coulomb fit without exact exchange and a Coulomb-and-exchange fit with it.",
        ),
    ] = None
    grid: Annotated[
        Any,
        optional(values.GRID),
        Option(
            ENERGY,
            "Points and weights instead of a level: a file with rows x y z weight [bohr, bohr^3].",
            "a pair (points (point, 3), weights (point,)), or what `dftfd.molecular_grid` gives.",
            values.grid_of_text,
        ),
    ] = None
    conv_tol: Annotated[
        float,
        CONV_TOL,
        Option(SEARCH, "Threshold of the energy change [hartree]; its square root is that of the orbital gradient."),
    ] = Convergence.energy
    max_cycles: Annotated[
        int,
        MAX_CYCLES,
        Option(
            SEARCH,
            "Maximum number of cycles, for DIIS and for second order separately.",
        ),
    ] = Convergence.max_cycles
    convergence: Annotated[
        str,
        choice(*STRATEGIES),
        Option(
            SEARCH,
            "auto: DIIS, second order after 50 cycles, and a check for lower states where several may compete; fast: "
            "the same without the check; hard: ADIIS with a level shift, then second order, following instabilities "
            "and exchanging nearly degenerate orbitals; diis, adiis, ediis: DIIS only; second-order, direct "
            "(quasi-Newton): minimisation after a start by DIIS.",
        ),
    ] = "auto"
    level_shift: Annotated[
        float, values.not_negative(" of hartree", "0.3"), Option(SEARCH, "Raises the empty orbitals [hartree].")
    ] = 0.0
    damping: Annotated[
        float,
        number(lambda x: 0 <= x < 1, "a number from 0 (none) to below 1"),
        Option(SEARCH, "Fraction of the previous Fock matrix, from 0 to below 1."),
    ] = 0.0
    guess: Annotated[
        Any,
        values.GUESS,
        Option(
            START,
            "Starting density: minao (superposed atoms in a minimal basis), atom (spherical atoms), hueckel, sap "
            "(atomic potentials), core (no electron repulsion), or the file of a result or checkpoint, also in another "
            "basis.",
            "another result, or a matrix (spin, ao, ao).",
        ),
    ] = "minao"
    broken_symmetry: Annotated[
        Any,
        optional(values.SYMMETRY),
        Option(
            START,
            "For UKS: mix (HOMO and LUMO of the guess), or the indices of atoms, from 0, whose spins are flipped.",
            of_text=values.atoms_of_text,
        ),
    ] = None
    occupations: Annotated[
        Any,
        optional(values.OCCUPATIONS),
        Option(
            STATE,
            "Occupation numbers of the lowest orbitals: one list for RKS, otherwise one for each spin, separated by a "
            "semicolon on the command line. They determine the number of electrons.",
            of_text=values.occupations_of_text,
        ),
    ] = None
    smearing: Annotated[
        Any,
        optional(values.SMEARING),
        Option(
            STATE,
            "Width [hartree] of Fermi occupations, or 'gaussian' and a width; the free energy is stationary.",
            of_text=values.smearing_of_text,
        ),
    ] = None
    follow_orbitals: Annotated[
        bool,
        Option(
            STATE,
            "Keep the occupations with the orbitals that overlap most with those of the guess, a result in the same "
            "basis: Delta-SCF for excited states.",
        ),
    ] = False
    electric_field: Annotated[
        Any,
        optional(array(3, expected="three finite numbers")),
        Option(ENERGY, "Three numbers [hartree / (e bohr)].", of_text=values.row_of_text),
    ] = None
    point_charges: Annotated[
        Any,
        optional(values.CHARGES),
        Option(
            ENERGY,
            "Rows charge, x, y, z, positions in bohr; between semicolons or in a file. The word angstrom behind the "
            "rows or in a remark (#) of the file names that unit.",
            "a pair (rows, 'angstrom').",
            values.charges_of_text,
        ),
    ] = None
    relativity: Annotated[
        str | None,
        choice("x2c", None),
        Option(ENERGY, "x2c for the spin-free exact two-component Hamiltonian."),
    ] = None
    external_potential: Annotated[
        Any,
        Option(
            ENERGY,
            "A Function of the point R^3 -> R, or any JAX code of it: the potential energy f(r) [hartree] of an "
            "electron at r [bohr]. Nuclei feel -Z f; with (f, 'electrons') they do not. See dftfd.terms.external.",
            in_files=False,
            on_command=False,
        ),
    ] = None
    solvent: Annotated[
        Any,
        optional(values.SOLVENT),
        Option(
            ENERGY,
            "Polarisable continuum around the molecule: the name of a solvent, such as water, or its static dielectric "
            "constant, optionally followed by the optical one for excitations (default 1.78).",
            of_text=values.solvent_of_text,
        ),
    ] = None
    solvent_model: Annotated[
        str,
        choice(*values.SOLVENT_MODELS),
        Option(
            ENERGY,
            "cpcm, cosmo (conductor-like), iefpcm, ssvpe (dielectric boundary), or smd: iefpcm with its own radii, and "
            "with cavity, dispersion and structure of the solvent, for free energies of solvation.",
        ),
    ] = "cpcm"
    terms: Annotated[
        Any,
        values.TERMS,
        Option(
            ENERGY,
            "Further terms of the energy: registered names with arguments, such as 'dft+u(shell=\"O 2p\", U=0.15)'. On "
            "the command line, once for each; also FILE.py:NAME from a file, which is executed.",
            "a class of dftfd.terms.Term, or functools.partial of one.",
            several="--term",
        ),
    ] = ()
    frozen_core: Annotated[
        bool,
        Option(ENERGY, "Leave closed inner shells out of the perturbation theory of a double hybrid."),
    ] = False
    linear_dependence: Annotated[
        float,
        values.not_negative("", "1e-6"),
        Option(ENERGY, "Overlap eigenvalues at or below this value are removed from the orbital space."),
    ] = LINEAR_DEPENDENCE
    allow_unconverged: Annotated[
        bool,
        Option(SEARCH, "Allow properties of a run that has not converged; otherwise they are an error."),
    ] = False
    checkpoint: Annotated[
        Any,
        Option(
            RUN,
            "File that saves the state after every cycle; the previous state is kept beside it. If it cannot be "
            "written, a warning says so and the calculation continues.",
            in_files=False,
        ),
    ] = None
    restart: Annotated[
        Any,
        Option(
            RUN,
            "Checkpoint of the same calculation to continue from; it is updated, unless another is given.",
            in_files=False,
        ),
    ] = None
    max_memory: Annotated[
        Any,
        optional(values.MEMORY),
        Option(
            RUN,
            "Memory limit of the process, in MB or as text such as '4 GB'; default: 80 % of the free memory, within "
            "the limit of a container.",
        ),
    ] = None
    progress: Annotated[
        Any,
        Option(
            RUN,
            "True prints the SCF table; None logs it under the name `dftfd`; or a dftfd.runtime.progress.Progress.",
            in_files=False,
            on_command=False,
        ),
    ] = None

    def __post_init__(self):
        for name, value in vars(self).items():
            object.__setattr__(self, name, OPTIONS[name].kind.checked(name, value))
        if self.smearing is not None and self.occupations is not None:
            raise InputError("smearing= determines the occupations; leave out one of the two options.")
        if self.auxiliary_basis is not None and not self.density_fit:
            raise InputError("auxiliary_basis= is for density_fit=True; exact integrals have no fitting functions.")

    def __eq__(self, other):
        return isinstance(other, Options) and all(map(values.same_value, vars(self).values(), vars(other).values()))

    def __repr__(self):
        return f"Options({', '.join(f'{name}={shown(value)}' for name, value in self.changed().items())})"

    @classmethod
    def given_to(cls, function: str, **given) -> "Options":
        """The options among the arguments of a function of that name; InputError for those that are none."""
        refuse_unknown(function, given, list(OPTIONS))
        return cls(**given)

    def changed(self, *decide: str) -> dict:
        """Those that are not the default, of those that decide one of the things named, by default of all."""
        return {name: getattr(self, name) for name in names(*decide) if OPTIONS[name].differs(getattr(self, name))}

    def of_one_molecule(self) -> set[str]:
        """Those given that suit no task of several molecules: files, and what numbers orbitals, atoms or points."""
        return ({*self.changed(RUN), *self.by_number()} | self.changed().keys() & {"follow_orbitals"}) - {"max_memory"}

    def by_number(self) -> set[str]:
        """Those given that number the orbitals or atoms of one molecule, or hold points around it."""
        atoms = {"broken_symmetry"} if self.broken_symmetry not in (None, "mix") else set()
        return atoms | self.changed().keys() & {"occupations", "grid"}

    def plain(self, *decide: str) -> dict:
        """Numbers, text, lists and arrays, as files keep them, of those that decide one of the things named."""
        return {name: values.plain_value(getattr(self, name)) for name in names(*decide) if OPTIONS[name].in_files}

    def document(self) -> dict:
        """What decides the answer, as documents hold it; of options that are None by default, those that were given.

        The functional has a place of its own there, and points of a grid would be most of it: their level is None.
        """
        kept = self.plain(ENERGY, STATE, START, SEARCH)
        del kept["xc"]
        if kept.pop("grid") is not None:
            kept["grid_level"] = None
        return {
            name: as_json(value, values.for_json)  # lists alone, as in a document that was read
            for name, value in kept.items()
            if value is not None or OPTIONS[name].default is not None
        }

    def going_on_from(self, result) -> dict:
        """Options, by name, of the same calculation for a geometry nearby, from the density of a result."""
        return self.changed() | {"guess": result, "broken_symmetry": None}

    def along_from(self, result) -> dict:
        """Options, by name, for the next geometry of a path.

        Those of `going_on_from`, unless broken symmetry was asked for and both spins of the result have the same
        density: from there they would stay the same where they should part, so that the SCF starts as it first did.
        """
        if self.broken_symmetry is not None and abs(result.density_matrix[0] - result.density_matrix[-1]).max() < 1e-3:
            return self.changed()
        return self.going_on_from(result)

    @property
    def strategy(self) -> Strategy:
        """The plan of the SCF cycle that the options ask for."""
        strategy = STRATEGIES[self.convergence]
        if self.level_shift:
            strategy = replace(strategy, level_shift=self.level_shift)
        if self.smearing or self.follow_orbitals:  # others would lie lower: nothing to minimise
            strategy = replace(strategy, minimiser=None, always_minimises=False, follow=False)
        return replace(strategy, damping=self.damping)

    def kept(self, **changes) -> "Options":
        """What a result remembers of its options: not the objects of its run, nor a guess that has no name."""
        guess = str(self.guess) if isinstance(self.guess, str | Path) else OPTIONS["guess"].default
        return replace(self, guess=guess, checkpoint=None, restart=None, progress=None, **changes)


def _declared():
    """(name, Option) of each field, with what else the field says."""
    defaults = {field.name: field.default for field in fields(Options)}
    for name, hint in get_type_hints(Options, include_extras=True).items():
        if name != "_":
            (option,) = (extra for extra in hint.__metadata__ if isinstance(extra, Option))
            yield name, replace(option, kind=kind_of(hint), type=hint.__origin__, default=defaults[name])


OPTIONS: dict[str, Option] = dict(_declared())
"""Every option by its name."""


def names(*decide: str) -> list[str]:
    """Names of the options that decide one of the things named; without, all."""
    return [name for name, option in OPTIONS.items() if not decide or option.decides in decide]


_P = ParamSpec("_P")
_M = TypeVar("_M")
_R = TypeVar("_R")


def taking(
    options: Callable[_P, Options],
) -> Callable[[Callable[[_M, Options], _R]], Callable[Concatenate[_M, _P], _R]]:
    """Decorator: a function of (molecule, options) becomes one of (molecule, xc, method, *, grid_level=3, ...).

    Signature and documentation, where it says {options}, are those of the fields.
    """
    made: Callable[..., Options] = options

    def decorate(function):
        declared, name = inspect.signature(function), function.__name__
        of_molecule, _ = declared.parameters.values()
        own = [p.replace(annotation=OPTIONS[p.name].type) for p in inspect.signature(options).parameters.values()]
        signature = declared.replace(parameters=[of_molecule, *own])

        @wraps(function)
        def taken(*given, **named):
            arguments = bound(name, signature, given, named)
            kind, of = kind_of(get_type_hints(function)[of_molecule.name]), of_molecule.name
            return function(kind.checked(of, arguments.pop(of)), made(**arguments))

        vars(taken)["__signature__"] = signature
        annotations = {p.name: p.annotation for p in signature.parameters.values()}
        taken.__annotations__ = annotations | {"return": declared.return_annotation}
        taken.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{options}", described())
        return taken

    return decorate


def described() -> str:
    """The options in words, one paragraph each, as documentation strings have them."""
    return "\n".join(
        textwrap.fill(
            f"{name}: {option.meaning}" + (f" In Python also {option.in_python}" if option.in_python else ""),
            width=116,
            subsequent_indent="    ",
        )
        for name, option in OPTIONS.items()
    )
