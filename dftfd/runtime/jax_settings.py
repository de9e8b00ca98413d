"""What dftfd asks of JAX before anything is computed: float64, a platform that starts, compiled programs that are kept.

`import dftfd` asks for it. The command `dftfd` does so when a command is to run, since JAX takes a second to load and
help needs none of it.

Compiled programs lie in the folder DFTFD_CACHE_DIR, or `programs` under the user's cache directory; an empty
DFTFD_CACHE_DIR switches the cache off. A folder that JAX was told of already (JAX_COMPILATION_CACHE_DIR or jax.config)
is left alone. If the folder cannot be written or belongs to another user, no programs are kept.
DFTFD_CACHE_SIZE, 1 GB if not set, bounds it: programs that were not used for the longest time go first, and after
DFTFD_CACHE_DAYS, 90 if not set, all do.

JAX writes into a local folder in place: who reads at that moment, or after the writer was killed, finds half a program,
and JAX never replaces a file that is there. It takes other storage by the prefix of its address, through etils.epath;
under the prefix of this module lies the same local folder, in which files appear whole or not at all.

What lies there is machine code, so it is looked at before it is used: each file begins with a keyed hash (HMAC-SHA-256)
of its name and contents. The key is a secret of the user in a file outside of the folder. A program that was damaged,
exchanged with another one, or written without the key counts as absent and is compiled again.
"""

import hashlib
import hmac
import logging
import os
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import jax
from etils import epath
from platformdirs import user_data_path

from dftfd.errors import FileError, InputError
from dftfd.runtime.files import read_bytes, remove_orphans, write_bytes
from dftfd.runtime.kept_programs import ENDING, cache_folder, cache_limit, forget, longest_unused, programs_in

SHORTEST_COMPILATION = 0.1  # seconds; quicker ones are not worth a file
PREFIX = "dftfd-whole-files://"
LARGEST_PROGRAM = 2**28  # bytes

_SEAL = hashlib.sha256().digest_size

log = logging.getLogger(__name__)

_written: dict[Path, int] = {}  # bytes by folder since this process made room there


class WholeFile(type(Path())):  # type: ignore[misc]  # the system's own kind of path: Path can't be subclassed before 3.12
    """A path whose files appear whole, and are there only as they were written."""

    def exists(self, **options) -> bool:
        """Whether an intact program is there; of anything else, whether there is something."""
        return self._program() is not None if self.name.endswith(ENDING) else super().exists(**options)

    def read_bytes(self) -> bytes:
        """A program; JAX has asked before whether it exists."""
        program = self._program()
        if program is None:
            raise FileError(f"{self} is not a compiled program of this user.")
        with suppress(OSError):  # the time of its last use, by which `_make_room` chooses
            os.utime(self, ns=(time.time_ns(), self.stat().st_mtime_ns))
        return program

    def write_bytes(self, data) -> int:
        """A program that can't be kept is compiled again by the next process; nothing else depends on it."""
        try:
            write_bytes(self, _seal(self.name, data) + bytes(data), lasting=False)
            _keep_within_limit(self.parent, len(data))
        except (FileError, OSError) as error:
            log.info("compiled program not kept: %s", error)
            return 0
        return len(data)

    def _program(self):
        """The contents behind a right seal, else None."""
        try:
            content = read_bytes(self, LARGEST_PROGRAM)
        except FileError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                log.info("compiled program not used: %s", error)
            return None
        seal, program = content[:_SEAL], content[_SEAL:]
        if hmac.compare_digest(seal, _seal(self.name, program)):
            return program
        log.info("compiled program not used: %s is not what this user has written.", self)
        return None


@epath.register_path_cls(PREFIX)
class _Address:
    """An address with the prefix makes a WholeFile."""

    def __new__(cls, address: str):
        return WholeFile(address.removeprefix(PREFIX))


def enable_compilation_cache() -> None:
    """Point JAX to the folder, unless it has one, or the folder or the secret can't be used."""
    chosen = os.environ.get("DFTFD_CACHE_DIR")
    if chosen == "" or jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]  # undeclared
        return
    cache_limit(), longest_unused()  # raise
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(os.stat(folder), folder, 0o022)
        _secret()
    except OSError as error:  # FileError is one
        log.info("compiled programs are not kept: %s", error)
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", f"{PREFIX}{folder}")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_COMPILATION)


def _keep_within_limit(folder, size):
    """Make room at the first program of the process and after each 64th of the limit: that looks at every file."""
    written = _written.get(folder, cache_limit()) + size
    if 64 * written > cache_limit():
        _make_room(folder)
        written = 0
    _written[folder] = written


def _make_room(folder):
    """Remove what writers left that died, old programs, and those that were not used for the longest time until the
    others are within the limit."""
    remove_orphans(folder)
    programs, earliest = programs_in(folder), time.time() - longest_unused()
    old = [program for program in programs if program.used < earliest]
    excess, more = sum(p.size for p in programs[len(old) :]) - cache_limit(), []
    for program in programs[len(old) :]:
        if excess <= 0:
            break
        excess -= program.size
        more.append(program)
    forget([*old, *more])


def _seal(name, program):
    return hmac.new(_secret(), name.encode() + b"\0" + program, hashlib.sha256).digest()


@cache
def _secret() -> bytes:
    """The user's key, made at first use; FileError if it cannot be stored or others can read it."""
    path = user_data_path("dftfd") / "compilation_cache.key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            _make_secret(path)
        _require_own(os.lstat(path), path, 0o077)
        key = read_bytes(path, _SEAL)
    except OSError as error:
        raise FileError(f"the key of the compilation cache cannot be used: {error}") from error
    if len(key) != _SEAL:
        raise FileError(f"the key of the compilation cache, {path}, is damaged; remove it.")
    return key


def _make_secret(path):
    """Write a new key beside `path`, whole and private, and rename it unless another process has made one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
    try:
        with open(handle, "wb") as stream:
            stream.write(secrets.token_bytes(_SEAL))
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _require_own(status, path, forbidden):
    """Raise FileError for what is another user's, or has one of the forbidden bits of mode."""
    if status.st_uid != os.geteuid() or status.st_mode & forbidden:
        raise FileError(f"{path} belongs to another user, or is open to others (mode {stat.filemode(status.st_mode)}).")


_FALSE = {"0", "false", "off", "no", "f", "n"}


@cache
def prepare_jax() -> None:
    """Once per process; raises InputError for environment variables that JAX or dftfd cannot work with."""
    if os.environ.get("JAX_ENABLE_X64", "").lower() in _FALSE:
        raise InputError(
            f"JAX_ENABLE_X64={os.environ['JAX_ENABLE_X64']!r} asks for 32-bit arithmetic, but dftfd computes in "
            "float64. Unset the variable."
        )
    jax.config.update("jax_enable_x64", True)
    _require_platforms()
    _compute_on_the_processor()
    enable_compilation_cache()


def _compute_on_the_processor():
    """Arrays and programs go to the processor unless they are put elsewhere, as xc.device does.

    Most of dftfd's are small: on an accelerator they would wait for each other. A default device that was chosen before
    stays, and JAX_PLATFORMS without cpu is such a choice.
    """
    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is None and (not platforms or "cpu" in platforms.split(",")):
        jax.config.update("jax_default_device", "cpu")


def _require_platforms():
    """Raise unless JAX starts on the platforms that it was told to use; the processor, "cpu", always is there."""
    chosen = jax.config.jax_platforms  # type: ignore[attr-defined]  # JAX does not declare its flags
    if not chosen or chosen == "cpu":
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter, without words, where the platform has no device
        reason = str(error).partition(" (set")[0].rstrip(".") or "no device of this platform"
        raise InputError(
            f"JAX does not start: {reason}. Look at JAX_PLATFORMS, here {chosen!r}: unset it, or name what this "
            "machine has, such as cpu."
        ) from error
