"""Memory: how much this process may use, what a calculation will allocate, and the leaner way where that is too much.

What may be used is what the system has free and what containers and limits allow of it. What is needed is estimated
before anything is computed: matrices, quadrature points and, for exchange, the fitting tensor have to fit. The fitting
tensor of J alone, exact two-electron integrals and orbitals on the grid are kept as far as there is room; the rest is
computed again in every cycle.

Large arrays are on memory that the next calculation uses again. New pages are zeroed when they are first touched, 0.1 s
a gigabyte, and on a virtual machine whose host has taken them away 1 to 2 s. What an array leaves is marked as free
instead: the system takes it when it needs it, and the process writes on it without a new page where nobody did.
"""

import ctypes
import mmap
import os
import re
import resource
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dftfd.errors import InputError, ResourceError, shown
from dftfd.runtime.threads import worker_count

SHARE = 0.8
"""Part of the free memory that a calculation may take unless it is told otherwise."""

MATRICES = 60
"""Matrices (ao, ao) per spin: DIIS, the Fock build, a checkpoint in the making; measured, rounded up."""

WORKER_MATRICES = 4
"""Matrices (ao, ao) that a worker holds besides its share of the result: the blocks of fitted exchange."""

COMPILED = 140 * 2**20
"""Bytes of compiled programs and of what compiles them: water in STO-3G takes 119 to 130 MiB with kept programs,
135 to 147 where they are compiled (PBE, B3LYP, r2SCAN)."""

CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")
_UNLIMITED = 2**60
_SIZE = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]{0,3})\s*", re.ASCII | re.IGNORECASE)
_UNITS = {"": 10**6, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", 1)
    for suffix, base in (("b", 1000), ("ib", 1024), ("", 1000))
}
_share = 1


def limit_memory_share(n_processes: int) -> None:
    """From now on, this process takes itself for one of `n_processes` that share the memory."""
    global _share
    _share = n_processes


@contextmanager
def memory_shared_among(n_processes: int):
    """Inside the `with`, this process takes itself for one of `n_processes`."""
    before = _share
    limit_memory_share(before * n_processes)
    try:
        yield
    finally:
        limit_memory_share(before)


def available_memory() -> int:
    """Bytes that can be allocated now without swapping: free system memory, less where a limit is nearer.

    Limits are those of every control group around the process, versions 1 and 2, whose caches count as free, and the
    process's own address space (ulimit -v).
    """
    return max(0, min([_system_memory(), *_cgroup_rooms(), *_process_rooms()])) // _share


def memory_budget(max_memory=None) -> int:
    """Bytes that a calculation may add to what the process has: SHARE of what is available, or less where told so.

    max_memory: limit of the whole process, in MB or as text, '4 GB'. Raises InputError for what is no size,
    ResourceError where the process has as much already.
    """
    free = int(SHARE * available_memory())
    if max_memory is None:
        return free
    limit = memory_size(max_memory)
    give_back()
    used = process_memory()
    if limit <= used:
        raise ResourceError(
            f"max_memory={max_memory!r} allows {in_bytes(limit)}, but Python and its libraries take "
            f"{in_bytes(used)} before anything is computed; increase the limit."
        )
    return min(limit - used, free)


def memory_size(size, name: str = "max_memory") -> int:
    """Bytes of a size: a number of MB, or text with a unit such as '800 MB' or '4 GiB'."""
    if isinstance(size, Real) and not isinstance(size, bool):
        size = f"{size:.12g}"
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None or not float(match[1]):
        raise InputError(
            f"{name}={shown(size)} is not a size; give a number of MB, or text such as '800 MB' or '4 GB'."
        )
    return int(float(match[1]) * unit)


def process_memory() -> int:
    """Bytes of this process in memory."""
    pages = _read(PROC / "self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def give_back() -> None:
    """Returns what was freed to the system, where the C library can: an SCF leaves holes of a hundred megabytes."""
    _unmap()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def in_bytes(n_bytes: float) -> str:
    """'1.50 GiB', '32 MiB'"""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.0f} MiB"


def peak_memory() -> int:
    """The most bytes that this process, or one that it has started and that has ended, has had in memory."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(used) * (1 if sys.platform == "darwin" else 1024)  # bytes there, KiB elsewhere


def _system_memory():
    match = re.search(r"^MemAvailable: *(\d+) kB", _read(PROC / "meminfo"), re.M)
    if match:
        return int(match[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 * 2**30


def _cgroup_rooms():
    """What each memory control group leaves, from the process's own up to the outermost that is visible."""
    for line in _read(PROC / "self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            for mount in (CGROUPS, CGROUPS / "unified"):
                yield from _rooms(mount, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            yield from _rooms(CGROUPS / "memory", path, *names)


def _rooms(mount, path, limit, usage, cache):
    folder = mount / path.lstrip("/")
    for group in (folder, *folder.parents):
        total, used = (_read(group / name).strip() for name in (limit, usage))
        if total.isdecimal() and used.isdecimal() and int(total) < _UNLIMITED:
            found = re.search(rf"^{cache} (\d+)", _read(group / "memory.stat"), re.M)
            yield int(total) - int(used) + (int(found[1]) if found else 0)
        if group == mount:
            return


def _process_rooms():
    """What the limit of the address space leaves."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    _unmap()
    pages = _read(PROC / "self/statm").split()
    if pages:
        yield limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _read(path):
    """The text of a system file; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


class Need(NamedTuple):
    """fixed: bytes by name that are needed.   flexible: the same for what need not be kept.   later: that which is kept
    where the calculation turns out to be longer than expected."""

    fixed: Mapping[str, float] = {}
    flexible: Mapping[str, float] = {}
    later: Mapping[str, float] = {}


@dataclass(frozen=True)
class MemoryPlan:
    """What a calculation takes, and may take.

    fixed, flexible, later: bytes by name, as in Need; of what need not be kept, what comes first is.
    budget: bytes.
    """

    fixed: Mapping[str, float]
    flexible: Mapping[str, float]
    later: Mapping[str, float]
    budget: int

    @property
    def needed(self) -> float:
        """Bytes without which nothing can be computed."""
        return sum(self.fixed.values())

    @property
    def room(self) -> int:
        """Bytes for what need not be kept."""
        return int(self.budget - self.needed)

    @property
    def needs_in_words(self) -> str:
        """What is needed, whatever there is of it."""
        wanted = sum(self.flexible.values())
        parts = ", ".join(f"{name} {in_bytes(n)}" for name, n in (*self.fixed.items(), *self.flexible.items()))
        later = "".join(f"; perhaps {name} {in_bytes(n)}" for name, n in self.later.items())
        return f"memory: about {in_bytes(self.needed + wanted)} ({parts}{later})"

    def __str__(self):
        room, lean = float(self.room), []
        for name, wanted in self.flexible.items():
            lean += [name] if wanted > room else []
            room -= wanted
        words = f"; {', '.join(lean)} partly computed anew in each cycle" if lean else ""
        return f"{self.needs_in_words} of {in_bytes(self.budget)}{words}"

    def require_room(self) -> None:
        """Raise ResourceError where even the leanest way takes more than the budget."""
        if self.room < 0:
            largest = max(self.fixed, key=lambda name: self.fixed[name])
            raise ResourceError(
                f"the calculation needs at least {in_bytes(self.needed)}, of which {in_bytes(self.fixed[largest])} for "
                f"{largest}; the limit is {in_bytes(self.budget)}. {ADVICE.get(largest, 'Use a smaller basis set')}, "
                "allow more by max_memory (--max-memory), or take a larger machine."
            )


ADVICE = {
    "the fitting tensor": "Use exact integrals (density_fit=False, --no-density-fit) or a smaller basis set",
    "three-centre integrals": "Use exact integrals (density_fit=False, --no-density-fit) or a smaller basis set",
    "the grid": "Use a lower grid_level",
    "all fitted integrals": "Use a smaller basis set",
    "all two-electron integrals": "Use density_fit=True or a smaller basis set",
    "all orbitals on the grid": "Use a lower grid_level or a smaller basis set",
    "compiled programs": "Nothing can be made smaller",
}


def memory_plan(n_ao: int, n_spin: int, needs: Iterable[Need], budget: int) -> MemoryPlan:
    """The plan of a calculation with n_ao basis functions whose parts need what they say."""
    fixed: dict[str, float] = {
        "compiled programs": COMPILED,
        "matrices": 8 * (MATRICES * n_spin + worker_count() * (n_spin + WORKER_MATRICES)) * n_ao**2,
    }
    flexible: dict[str, float] = {}
    later: dict[str, float] = {}
    for need in needs:
        for total, part in ((fixed, need.fixed), (flexible, need.flexible), (later, need.later)):
            for name, n_bytes in part.items():
                total[name] = total.get(name, 0.0) + n_bytes
    return MemoryPlan(fixed, flexible, later, budget)


LEAST = 2**26
"""Bytes from which on an array is kept: below, the C library does the same."""

ALIGNMENT = 64
"""Bytes: XLA reads an array at a multiple of it in place, and copies any other before it begins."""

_lock = threading.RLock()  # an owner may go while a list grows
_left: list[mmap.mmap] = []


class _Owner:
    """What the arrays on a mapping refer to: when it is gone, they are."""

    def __init__(self, mapping):
        flat = np.frombuffer(mapping, np.uint8)
        self.__array_interface__ = flat.__array_interface__
        weakref.finalize(self, _leave, mapping).atexit = False


def empty(count: int, dtype=np.float64) -> np.ndarray:
    """An uninitialised array (count,), if possible on memory of up to twice its size that an earlier one has left."""
    wanted = count * np.dtype(dtype).itemsize
    if wanted < LEAST or not hasattr(mmap, "MADV_FREE"):
        return np.empty(count, dtype)
    try:
        return np.asarray(_Owner(_mapping(wanted)))[:wanted].view(dtype)
    except OSError:  # no address space
        return np.empty(count, dtype)


def _mapping(wanted: int) -> mmap.mmap:
    """One that was left, of up to twice the size, or a new one in place of all that were left."""
    with _lock:
        fitting = [mapping for mapping in _left if wanted <= len(mapping) <= 2 * wanted]
        mapping = min(fitting, key=len, default=None)
        if mapping is None:
            _left.clear()
        else:
            _left.remove(mapping)
    if mapping is None:
        mapping = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def _unmap() -> None:
    """Returns to the system the memory of arrays that is kept and not used."""
    with _lock:
        _left.clear()


def _leave(mapping) -> None:
    mapping.madvise(mmap.MADV_FREE)
    with _lock:
        _left.append(mapping)


def aligned(count: int, dtype=np.float64) -> np.ndarray:
    """An uninitialised array (count,) that compiled code reads in place."""
    size = count * np.dtype(dtype).itemsize
    flat = np.empty(size + ALIGNMENT, np.uint8)
    start = -flat.ctypes.data % ALIGNMENT
    return flat[start : start + size].view(dtype)
