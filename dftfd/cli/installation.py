"""The command doctor: versions, threads, BLAS, memory, kept programs, and what is missing for what.

It has to answer where something is missing or broken, so what it looks at is imported when it looks.
"""

import importlib
import json
import os
import platform
import re
import resource
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated

import typer
from threadpoolctl import threadpool_info

from dftfd.cli.commands import app
from dftfd.cli.terminal import say
from dftfd.errors import DftfdError
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


@app.command()
def doctor(json_form: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False):
    """Show versions, threads, memory and missing packages.

    BLAS and kept programs too; exit code 1 for a problem.
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
