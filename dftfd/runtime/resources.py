"""How much memory this process may use: what the system has free, and what containers and limits allow of it."""

import os
import re
import resource
from numbers import Real
from pathlib import Path

from dftfd.errors import InputError, ResourceError, shown

SHARE = 0.8
"""Part of the free memory that a calculation may take unless it is told otherwise."""

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
    limit, used = memory_size(max_memory), process_memory()
    if limit <= used:
        raise ResourceError(
            f"max_memory={max_memory!r} allows {in_bytes(limit)}, but Python and its libraries take {in_bytes(used)} "
            "before anything is computed; allow more."
        )
    return min(limit - used, free)


def memory_size(size, name: str = "max_memory") -> int:
    """Bytes of a size: a number of MB, or text with a unit such as '800 MB' or '4 GiB'."""
    if isinstance(size, Real) and not isinstance(size, bool):
        size = f"{size:.12g}"
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None or not float(match[1]):
        raise InputError(f"{name}={shown(size)} is no size; give a number of MB, or text such as '800 MB' or '4 GB'.")
    return int(float(match[1]) * unit)


def process_memory() -> int:
    """Bytes of this process in memory."""
    pages = _read(PROC / "self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def in_bytes(n_bytes: float) -> str:
    """'1.50 GiB', '32 MiB'"""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.0f} MiB"


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
    limit, pages = resource.getrlimit(resource.RLIMIT_AS)[0], _read(PROC / "self/statm").split()
    if limit != resource.RLIM_INFINITY and pages:
        yield limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _read(path):
    """The text of a system file; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
