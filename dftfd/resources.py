"""How much memory this process may use."""

import os
from pathlib import Path

_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


_share = 1


def limit_memory_share(n_processes: int) -> None:
    """From now on, this process takes itself for one of `n_processes` that share the memory."""
    global _share
    _share = n_processes


def available_memory() -> int:
    """Bytes that can be allocated now without swapping: free system memory, less where a container limits it."""
    limits = [_system_memory()]
    for limit, usage in _CGROUP_FILES:
        total, used = _read_integer(limit), _read_integer(usage)
        if total is not None and used is not None and total < 2**60:
            limits.append(max(total - used, 0))
    return min(limits) // _share


def _system_memory():
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30


def _read_integer(path):
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def in_gib(n_bytes: float) -> str:
    """'1.50 GiB'"""
    return f"{n_bytes / 2**30:.2f} GiB"
