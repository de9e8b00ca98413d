"""The commands doctor, get-libxc, cache, list and completion: what is here, what is missing, which names are known.

They have to answer where something is missing or broken, so what they look at is imported when they look.
"""

import importlib
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import sys
import sysconfig
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from threadpoolctl import threadpool_info

from dftfd.cli.commands import app, command
from dftfd.cli.terminal import say
from dftfd.errors import DftfdError, FileError, InputError, MissingDependencyError, closest_names
from dftfd.model.options import OPTIONS
from dftfd.runtime.child_processes import run_module
from dftfd.runtime.json_reader import shipped_json
from dftfd.runtime.libxc_folder import maple_folder
from dftfd.runtime.memory import available_memory, in_bytes, memory_budget
from dftfd.runtime.threads import worker_count
from dftfd.runtime.version import VERSION

PROBLEM = 1

SERVES = {
    "plots": "pictures, HTML reports",
    "basis": "all basis sets of the Basis Set Exchange",
    "opt": "geometry optimisation",
    "ase": "ASE's calculator, the G2/97 set",
    "dispersion": "D3 and D4",
    "dist": "batches on a Dask cluster",
    "explain": "formulas in symbols",
    "verify": "referees in extended precision",
    "proofs": "proofs of exact conditions, rechecked",
    "learned": "networks as parameters",
    "smiles": "molecules from SMILES",
    "skala": "the functional Skala",
}
"""What each extra of the package is for. Those of developers are not in the list."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;(.*))?")
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([0-9][0-9.]*)")


@dataclass(frozen=True)
class Blas:
    """A library of linear algebra, its version where it tells, and its number of threads."""

    name: str
    version: str | None
    threads: int
    file: str


@dataclass(frozen=True)
class Cache:
    """The compiled programs that are kept: their folder, None where none are, their number, bytes and bound [bytes]."""

    folder: str | None
    programs: int
    size: int
    limit: int


@dataclass(frozen=True)
class Feature:
    """What an extra serves, the packages of it that are missing, and the command that installs them."""

    extra: str
    serves: str
    missing: tuple[str, ...]

    @property
    def install(self) -> str:
        """The command that brings what is missing."""
        return f"pip install 'dftfd[{self.extra}]'"


@dataclass(frozen=True)
class Installation:
    """The machine as dftfd sees it. Memory in bytes; `problems` are what has to be mended, one line each."""

    python: str
    system: str
    versions: dict[str, str | None]
    cores: int
    workers: int | None
    settings: dict[str, str]
    blas: tuple[Blas, ...]
    memory_available: int
    memory_of_calculations: int
    address_space: int | None
    cache: Cache | None
    features: tuple[Feature, ...]
    problems: tuple[str, ...]


@command()
def doctor(json_form: Annotated[bool, "--json", "Print one JSON document."] = False):
    """Show versions, threads, memory and missing packages.

    Also shows BLAS and the compilation cache; exit code 1 if there is a problem.
    """
    found = examine()
    say(json.dumps(asdict(found), indent=1) if json_form else report(found))
    return PROBLEM if found.problems else 0


def examine() -> Installation:
    """Look at what is installed and set; nothing is compiled, and what fails is a line of `problems`, no exception."""
    problems: list[str] = []
    versions, features = _packages(problems)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return Installation(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        versions={"dftfd": VERSION} | versions,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        workers=_or_problem(worker_count, problems),
        settings={name: os.environ[name] for name in sorted(os.environ) if _decides(name)},
        blas=_or_problem(_blas, problems) or (),
        memory_available=available_memory(),
        memory_of_calculations=memory_budget(),
        address_space=None if limit == resource.RLIM_INFINITY else limit,
        cache=_or_problem(_cache, problems),
        features=features,
        problems=tuple(problems),
    )


def report(found: Installation) -> str:
    """An installation in words, as `dftfd doctor` prints it."""
    packages = ", ".join(f"{name} {number or 'MISSING'}" for name, number in found.versions.items())
    threads = f"{found.cores} cores, {found.workers} workers"
    libraries = ", ".join(f"{blas.name} {blas.version or ''} ({blas.threads} threads)" for blas in found.blas)
    memory = f"{in_bytes(found.memory_available)} free, a calculation may add {in_bytes(found.memory_of_calculations)}"
    if found.address_space is not None:
        memory += f"; address space limited to {in_bytes(found.address_space)}"
    lines = [f"Python    {found.python} on {found.system}", f"packages  {packages}"]
    lines += [f"threads   {threads}", f"BLAS      {libraries or 'none found'}", f"memory    {memory}"]
    lines += [f"programs  {_of_cache(found.cache)}"]
    lines += [f"set       {name}={value}" for name, value in found.settings.items()]
    lines += ["", "feature     serves                                  state"]
    for feature in found.features:
        state = f"missing {', '.join(feature.missing)}" if feature.missing else "ready"
        lines.append(f"{feature.extra:10}  {feature.serves:38}  {state}")
    lines += [feature.install for feature in found.features if feature.missing]
    lines += ["", *(f"PROBLEM   {problem}" for problem in found.problems)]
    return "\n".join(lines + ([] if found.problems else ["no problem found"]))


def _of_cache(cache):
    if cache is None:
        return "not looked at"
    if cache.folder is None:
        return "none are kept: DFTFD_CACHE_DIR is empty"
    return f"{cache.programs} kept, {in_bytes(cache.size)} of at most {in_bytes(cache.limit)}, in {cache.folder}"


def _decides(name):
    """Whether an environment variable decides how dftfd and what is below it run."""
    return name.startswith(("DFTFD_", "JAX_")) or name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS")


def _or_problem(look, problems):
    try:
        return look()
    except DftfdError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{error.strerror}: {error.filename}")
    except ImportError as error:
        problems.append(f"a package does not load: {error}")
    return None


def _packages(problems):
    """Versions of what dftfd requires, and what its extras lack; from the package's own metadata."""
    try:
        lines = metadata.requires("dftfd") or []
    except metadata.PackageNotFoundError:
        problems.append(
            "dftfd runs from its sources and is not installed, so what it requires is not known; install it."
        )
        return {}, ()
    versions: dict[str, str | None] = {}
    missing: dict[str, list[str]] = {extra: [] for extra in SERVES}
    for name, bounds, condition in (match.groups() for line in lines if (match := _REQUIREMENT.match(line))):
        extra = re.search(r"extra == ['\"](\w+)['\"]", condition or "")
        found = _version(name)
        if extra and extra[1] in missing and found is None:
            missing[extra[1]].append(name)
        if extra or (found is None and condition):  # those with a condition are not for every system
            continue
        versions[name] = found
        if found is None:
            problems.append(f"{name} is missing, which everything needs; pip install 'dftfd' brings it.")
        elif not _fits(found, bounds):
            problems.append(
                f"{name} {found} is installed, but {bounds.strip()} is needed; pip install '{name}{bounds}'."
            )
    return versions, tuple(Feature(extra, SERVES[extra], tuple(names)) for extra, names in missing.items())


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(found, bounds):
    """Whether a version keeps bounds such as '>=0.10,<0.13'; of versions their numbers count."""
    numbers = lambda text: tuple(int(n) for n in re.sub(r"[^0-9.].*", "", text).strip(".").split("."))
    have = numbers(found)
    tests = {">=": have.__ge__, "<": have.__lt__, "<=": have.__le__, ">": have.__gt__, "==": have.__eq__}
    return all(tests[kind](numbers(bound)) for kind, bound in _BOUND.findall(bounds))


def _blas():
    """The libraries that NumPy and SciPy bring, which are loaded for it."""
    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(name)
    rows = [row for row in threadpool_info() if row["user_api"] == "blas"]
    places = (os.path.basename(row["filepath"]) for row in rows)
    return tuple(Blas(r["internal_api"], r["version"], r["num_threads"], f) for r, f in zip(rows, places, strict=True))


def _cache():
    """The folder of compiled programs; an error of its settings is a problem."""
    from dftfd.runtime.kept_programs import cache_folder, cache_limit, kept_programs

    if os.environ.get("DFTFD_CACHE_DIR") == "":
        return Cache(None, 0, 0, 0)
    programs = kept_programs()
    return Cache(str(cache_folder()), len(programs), sum(program.size for program in programs), cache_limit())


PACKAGE = "jax-xc==0.0.11"
SHA256 = "79522318718f98a0cd863be03fd7e37b79840558d1ba7350d2e21368130c9214"
"""Of its wheel for CPython 3.11, as the Python Package Index publishes it; pip refuses any other file."""

_OF_ANY_WHEEL = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--platform")
_WHEEL = (*_OF_ANY_WHEEL, "manylinux_2_17_x86_64", "--only-binary", ":all:", "--no-deps", "--require-hashes")


@command("get-libxc")
def get_libxc():
    """Fetch libxc's catalogue with pip, on any platform.

    dftfd reads the formulas in jax-xc's wheel, which are plain Python; its compiled part is for Python 3.11 and 3.12 on
    x86-64 Linux alone and is never loaded. The wheel therefore works with every Python, without its dependencies. Only
    the wheel with the known SHA-256 is accepted.
    """
    from dftfd.functionals import catalogue, jax_xc_formula

    if not jax_xc_formula.is_installed():
        _fetch(sysconfig.get_path("purelib"))
        importlib.invalidate_caches()
        if not jax_xc_formula.is_installed():
            raise FileError(f"pip ended without an error, but {PACKAGE} is not in {sysconfig.get_path('purelib')}.")
    say(f"{len(catalogue.names())} functionals of libxc are served as libxc:NAME; dftfd list shows them.")


def _fetch(folder):
    with TemporaryDirectory() as place:
        requirements = Path(place) / "requirements.txt"
        requirements.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
        asked = ("--target", folder, "--requirement", str(requirements))
        done = run_module("pip", ["--disable-pip-version-check", "install", "--quiet", *_WHEEL, *asked])
    if "No module named pip" in done.stderr:
        raise MissingDependencyError(
            f"{sys.executable} has no pip, which fetches {PACKAGE}; install pip with python -m ensurepip."
        )
    if done.returncode:
        reason = ([line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"])[-1]
        raise FileError(f"pip did not install {PACKAGE} to {folder}: {reason.removeprefix('ERROR: ')}")


DAY, MB = 86400, 1e6


@command()
def cache(
    clear: Annotated[bool, "Remove all compiled programs."] = False,
    older_than: Annotated[float | None, "Remove programs unused for this many days."] = None,
):
    """Show or clear the compiled programs kept between runs."""
    from dftfd.runtime.kept_programs import cache_folder, cache_limit, forget, kept_programs

    if os.environ.get("DFTFD_CACHE_DIR") == "":
        print("no compiled programs are kept: DFTFD_CACHE_DIR is empty")
        return
    if older_than is not None and not older_than >= 0:
        raise InputError(f"--older-than {older_than:g}: a number of days expected.")
    if clear or older_than is not None:
        latest = time.time() - DAY * (older_than or 0)
        old = [program for program in kept_programs() if clear or program.used < latest]
        print(f"{len(old)} programs removed, {forget(old) / MB:.0f} MB")
    programs = kept_programs()
    size = sum(program.size for program in programs) / MB
    print(f"{len(programs)} programs, {size:.0f} MB of at most {cache_limit() / MB:.0f} MB, in {cache_folder()}")
    if programs:
        print(f"the oldest was last used {(time.time() - programs[0].used) / DAY:.1f} days ago")


INDEX = "functionals/index.json"
FAMILIES = ("LDA", "GGA", "meta-GGA", "nonlocal", "HF")
KINDS = (
    "exchange",
    "correlation",
    "exchange-correlation",
    "kinetic energy",
    "Coulomb energy",
    "model potential",
)

_ALIASES = {
    "mgga": "meta-gga",
    "x": "exchange",
    "c": "correlation",
    "xc": "exchange-correlation",
    "k": "kinetic energy",
    "model of the potential": "model potential",
}
"""Words of libxc's names."""


@command("list")
def list_names(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this text.")] = "",
    long: Annotated[bool, "Show family, kind, year, exact exchange, source."] = False,
    family: Annotated[str | None, f"Only these: {', '.join(FAMILIES)}."] = None,
    kind: Annotated[str | None, f"Only these: {', '.join(KINDS)}."] = None,
    hybrid: Annotated[bool | None, "Only those with exact exchange, or without."] = None,
    uses: Annotated[str | None, "Only those that use sigma, lapl or tau."] = None,
    since: Annotated[int | None, "Only those published in this year or later."] = None,
    json_form: Annotated[bool, "--json", "Print one JSON document."] = False,
):
    """List the known functionals.

    dftfd's own functionals, and libxc's as libxc:NAME. The first source is that of the combination, followed by those
    of its terms.
    """
    family, kind = _known_word("family", family, FAMILIES), _known_word("kind", kind, KINDS)
    wanted = {
        name: row
        for name, row in known_functionals().items()
        if pattern.lower() in name.lower()
        and family in (None, row.get("family"))
        and kind in (None, row.get("kind"))
        and hybrid in (None, bool(row.get("exact_exchange")) and row.get("family") != "HF")
        and (uses is None or uses in row.get("uses", ()))
        and (since is None or row.get("year", 0) >= since)
    }
    if json_form:
        print(json.dumps(wanted, indent=1))
        return
    width = max(map(len, wanted), default=0)
    if not long and sys.stdout.isatty():
        _print_in_columns([*wanted], width + 2)
        return
    for name, row in wanted.items():
        say(f"{name:{width}}  {_about(row)}".rstrip() if long else name)


def _print_in_columns(names, width):
    """As many beside one another as the terminal has room for, and how many there are."""
    count = max(1, shutil.get_terminal_size().columns // width)
    height = -(-len(names) // count)
    for k in range(height):
        say("".join(f"{name:{width}}" for name in names[k::height]).rstrip())
    say(f"\n{len(names)} functionals; `dftfd list WORD` shows fewer, --long more of each")


def known_functionals() -> dict[str, dict]:
    """What is known of each functional that can be asked for, by name: the library's, plug-ins', libxc's."""
    try:
        index = shipped_json("dftfd", INDEX)
    except OSError as error:
        raise FileError(f"cannot read {INDEX}: {error.strerror}; install dftfd again.") from error
    plugins = {entry.name.lower(): {"plug-in": entry.value} for entry in entry_points(group="dftfd.functionals")}
    own = dict(sorted((plugins | index["own"]).items()))
    rows, has_jax_xc = index["libxc"], importlib.util.find_spec("jax_xc") is not None
    if maple_folder() is not None:
        rows = {n: r for n, r in rows.items() if has_jax_xc or n not in index["libxc_without_source"]}
        rows = dict(sorted((rows | index["libxc_source"]).items()))
    elif not has_jax_xc:
        rows = {}
    return own | {f"libxc:{name}": row for name, row in rows.items()}


def _known_word(option, given, known):
    if given is None:
        return None
    found = {word.lower(): word for word in known}.get(_ALIASES.get(given.lower(), given.lower()))
    if found is None:
        close = ", ".join(closest_names(given, known))
        raise InputError(f"--{option} {given!r}: one of {', '.join(known)} expected; the closest are {close}.")
    return found


def _about(row):
    """One line: family, kind, year, exact exchange, what it uses, sources."""
    if "plug-in" in row:
        return f"plug-in {row['plug-in']}"
    shares = row.get("exact_exchange", ())
    exchange = " ".join(f"{100 * c:+.4g}%" + (f" beyond 1/{w:g} bohr" if w else "") for w, c in shares)
    parts = [row["family"], row["kind"], str(row.get("year", "")), f"{exchange} exact exchange" if exchange else ""]
    parts += [" ".join(f"{100 * c:.4g}%" for c in dict.fromkeys(row["pt2"])) + " PT2"] if row.get("pt2") else []
    parts += ["nonlocal correlation" if row.get("nonlocal_correlation") else "", "/".join(row.get("uses", ()))]
    parts += [f"doi:{doi}" for doi in row.get("doi", ())]
    return ", ".join(part for part in parts if part)


# The command completion: what a shell needs to complete commands, options, names of functionals and files.
#
# The script is made from the commands themselves, so that it knows what they know. It is plain bash, without a call of
# dftfd at each key; zsh runs it by its own bashcompinit. Where it has no answer the shell completes names of files.

_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
SHELLS = {"bash": "", "zsh": _ZSH}
_OF_FUNCTIONALS = {"xc", "name", "target", "reference", "compare"}
"""Options and arguments that are names of functionals."""

_FILES_COME_FIRST = {"file", "files"}
_WORDS = {
    "shell": " ".join(SHELLS),
    "basis": "sto-3g 3-21g 6-31g 6-311g cc-pvdz cc-pvtz cc-pvqz aug-cc-pvdz aug-cc-pvtz "
    "def2-svp def2-svpd def2-tzvp def2-tzvpd def2-tzvpp def2-qzvp def2-qzvpp",
    "unit": "angstrom bohr",
    "coordinates": "tric dlc hdlc prim tric-p cart",
    "xctype": "LDA GGA MGGA",
    "guess": "minao atom hueckel sap core",
}

_SCRIPT = """\
# Completion of dftfd for {shell}. For this shell: eval "$(dftfd completion {shell})"
{start}_dftfd() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="" options="" i
  local functionals="{functionals}"
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ "${{COMP_WORDS[i]}}" != -* ]]; then command="${{COMP_WORDS[i]}}"; break; fi
  done
  case "$command" in
{commands}
    *) COMPREPLY=($(compgen -W "{names} --help --version" -- "$cur")); return ;;
  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur")); fi
}}
complete -o default -F _dftfd dftfd
"""


@command()
def completion(shell: Annotated[str, typer.Argument(help=f"One of {', '.join(SHELLS)}.")] = "bash"):
    """Print the shell completion of commands and names.

    For one session: eval "$(dftfd completion bash)". For all sessions, add this line to ~/.bashrc or ~/.zshrc.
    """
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r}: one of {', '.join(SHELLS)} expected.")
    print(script(shell), end="")


def script(shell: str) -> str:
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {})
    own = [name for name in known_functionals() if ":" not in name]
    return _SCRIPT.format(
        shell=shell,
        start=SHELLS[shell],
        functionals=" ".join(own),
        commands="\n".join(_case(name, command) for name, command in commands.items()),
        names=" ".join(commands),
    )


def _case(name, command):
    """The branch of one command: its options, and what may follow those that take a value."""
    options = [p for p in command.params if p.param_type_name == "option"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    every = " ".join(flag for p in options for flag in (*p.opts, *p.secondary_opts))
    lines = [f"    {name})", f'      options="{every} --help"', '      case "$prev" in']
    by_reply: dict[str, list[str]] = {}
    for option in options:
        if not option.is_flag:
            by_reply.setdefault(_reply(option.name), []).extend(option.opts)
    lines += [f"        {'|'.join(flags)}) {reply}; return ;;" for reply, flags in by_reply.items()]
    lines.append("      esac")
    if arguments and (name := arguments[0].name) not in _FILES_COME_FIRST:
        lines.append(f'      if [[ "$cur" != -* ]]; then {_reply(name)}; return; fi')
    return "\n".join([*lines, "      ;;"])


def _reply(name) -> str:
    """What completes the value of an option or argument."""
    if name in _OF_FUNCTIONALS:
        return 'COMPREPLY=($(compgen -W "$functionals" -- "$cur") $(compgen -f -X "!*.py" -- "$cur"))'
    words = _WORDS.get(name) or (_listed(OPTIONS[name].kind.expected) if name in OPTIONS else "")
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))' if words else ":"


def _listed(expected):
    """The words of "one of 'auto', 'RKS'"."""
    return " ".join(re.findall(r"'([^']+)'", expected)) if expected.startswith("one of") else ""
