"""JAX's persistent compilation cache: a functional is compiled once per machine, not once per process.

The folder is DFTFD_CACHE_DIR, or `xla` under the user's cache directory; an empty DFTFD_CACHE_DIR switches the cache
off. A folder that JAX was told of already (JAX_COMPILATION_CACHE_DIR or jax.config) is left alone. Where the folder
can't be written, everything works without it.
"""

import os
from pathlib import Path

import jax
from platformdirs import user_cache_path

SHORTEST_COMPILATION = 0.1  # seconds; quicker ones are not worth a file


def cache_folder() -> Path | None:
    """Where compiled programs are kept; None if they are not."""
    chosen = os.environ.get("DFTFD_CACHE_DIR")
    if chosen == "":
        return None
    return Path(chosen) if chosen else user_cache_path("dftfd") / "xla"


def enable_compilation_cache() -> None:
    """Point JAX to the folder, unless it has one or the folder can't be written."""
    folder = cache_folder()
    if folder is None or jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_COMPILATION)
