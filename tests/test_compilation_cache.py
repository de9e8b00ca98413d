"""Compiled programs are kept between processes, whole or not at all, and never at the price of a failure."""

import os
import signal
import socket
import subprocess
import sys

import jax
import pytest

from dftfd.errors import InputError
from dftfd.runtime import jax_settings
from dftfd.runtime.jax_settings import PREFIX, enable_compilation_cache

PROGRAM = """
import jax, dftfd
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""
COMPILING = """
import jax, dftfd
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: 2 * x)(1.0))
"""
LIMITED = (
    """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.{answer})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
"""
    + COMPILING
)
"""No file may be larger than 100 bytes; a write beyond ends the process or fails."""


def process(program, **environment):
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in ("DFTFD_CACHE_DIR", "DFTFD_CACHE_SIZE", "JAX_COMPILATION_CACHE_DIR")
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def run(program=PROGRAM, **environment):
    done = process(program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


DIRECTORY, SHORTEST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture
def folder_of(monkeypatch):
    """Variables -> the folder that JAX is given at the import of dftfd, here within this process."""
    before = {name: getattr(jax.config, name) for name in (DIRECTORY, SHORTEST)}

    def folder(**variables):
        for name in ("DFTFD_CACHE_DIR", "DFTFD_CACHE_SIZE", "JAX_COMPILATION_CACHE_DIR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        jax_settings._secret.cache_clear()
        jax.config.update(DIRECTORY, None)
        enable_compilation_cache()
        return getattr(jax.config, DIRECTORY)

    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
    jax_settings._secret.cache_clear()


def test_folder_is_made_and_used(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert run(DFTFD_CACHE_DIR=str(folder)) == [f"{PREFIX}{folder}", "0.1"]
    assert folder.is_dir()


def test_empty_variable_switches_the_cache_off(folder_of):
    assert folder_of(DFTFD_CACHE_DIR="") is None


@pytest.mark.slow  # 1 s, a process; test_folder_is_made_and_used is quick
def test_a_folder_chosen_for_jax_is_left_alone(tmp_path):
    assert run(JAX_COMPILATION_CACHE_DIR=str(tmp_path), DFTFD_CACHE_DIR=str(tmp_path / "ours"))[0] == str(tmp_path)
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path, folder_of):
    (tmp_path / "file").write_text("in the way")
    assert folder_of(DFTFD_CACHE_DIR=tmp_path / "file" / "cache") is None
    assert folder_of(DFTFD_CACHE_DIR=tmp_path / "cache") == f"{PREFIX}{tmp_path / 'cache'}"


@pytest.mark.slow  # 3 s; test_a_full_disk_costs_the_cache_only is quick
def test_a_killed_writer_leaves_no_half_program(tmp_path):
    """Killed inside the write of a program: the next process finds none, and no warning of JAX comes. Nor does anything
    stay of programs that nobody compiles again."""
    folder = tmp_path / "cache"
    assert process(LIMITED.format(answer="SIG_DFL"), DFTFD_CACHE_DIR=str(folder)).returncode == -signal.SIGXFSZ
    assert not list(folder.glob("jit*-cache"))
    (folder / f".jit_of_before-cache.{socket.gethostname()}-999999999.xy.tmp").touch()
    assert run(COMPILING, DFTFD_CACHE_DIR=str(folder)) == ["2.0"]
    assert not list(folder.glob(".*.tmp"))
    kept = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert any(name.startswith("jit__lambda") for name in kept)
    assert run(COMPILING, DFTFD_CACHE_DIR=str(folder)) == ["2.0"]
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == kept


def test_a_full_disk_costs_the_cache_only(tmp_path):
    """The write of a program fails: the result is there, without a warning, and no half program is left."""
    assert run(LIMITED.format(answer="SIG_IGN"), DFTFD_CACHE_DIR=str(tmp_path)) == ["2.0"]
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------- what is used, what is not


MULTIPLYING = COMPILING.replace("2 * x", "{factor} * x")


def entry(folder):
    """The file of the one program named jit__lambda."""
    (found,) = folder.glob("jit__lambda*-cache")
    return found


@pytest.mark.slow  # 3 s; test_odd_entries_are_not_used and test_the_key_is_private are quick
def test_a_program_of_somebody_else_is_not_used(tmp_path):
    """A right name and a right hash, made with another key: machine code for 3 x, compiled anew for 2 x."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run(MULTIPLYING.format(factor=2), DFTFD_CACHE_DIR=str(ours))
    forged = MULTIPLYING.format(factor=2).replace("import jax, dftfd", FORGING.format(name=entry(ours).name))
    run(forged, DFTFD_CACHE_DIR=str(theirs), XDG_DATA_HOME=str(tmp_path))
    assert entry(theirs).name == entry(ours).name and entry(theirs).read_bytes() != entry(ours).read_bytes()
    entry(ours).write_bytes(entry(theirs).read_bytes())
    assert run(MULTIPLYING.format(factor=2), DFTFD_CACHE_DIR=str(ours)) == ["2.0"]
    assert entry(theirs).read_bytes() != entry(ours).read_bytes()


FORGING = """
import jax, dftfd
from dftfd.runtime.jax_settings import WholeFile
original = WholeFile.write_bytes
def write_bytes(self, data):
    return original(self.with_name("{name}") if self.name.startswith("jit__lambda") else self, data)
WholeFile.write_bytes = write_bytes
"""
"""Another user's process, which writes what it compiles under a name of its choice."""


ODD = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "sparse": lambda path: (path.touch(), os.truncate(path, 2**40)),
}
SEVERAL = """
import jax, dftfd
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
for factor, name in enumerate({names!r}):
    code = lambda x, factor=factor: factor * x
    code.__name__ = name
    print(jax.jit(code)(1.0))
"""


def test_odd_entries_are_not_used(tmp_path):
    """A pipe that nobody fills, a link to a device without end, ..., one bit, and the machine code of another program
    under the name of this one: compiled anew, nothing hangs or is said, and the right program takes its place.

    Each in the place of a program of its own, in one process.
    """
    names = [*ODD, "bit", "exchanged"]
    program = SEVERAL.format(names=names)
    expected = [f"{float(factor)}" for factor in range(len(names))]
    assert run(program, DFTFD_CACHE_DIR=str(tmp_path)) == expected
    places = {name: next(tmp_path.glob(f"jit_{name}*-cache")) for name in names}
    content = places["bit"].read_bytes()
    places["exchanged"].write_bytes(content)
    places["bit"].write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    for name, make in ODD.items():
        places[name].unlink()
        make(places[name])
    assert run(program, DFTFD_CACHE_DIR=str(tmp_path)) == expected
    assert places["exchanged"].read_bytes() != content


@pytest.mark.slow
def test_the_folder_is_bounded(tmp_path):
    """Programs that were not used for the longest time go first; what was read last stays."""
    run(MULTIPLYING.format(factor=2), DFTFD_CACHE_DIR=str(tmp_path))
    first = entry(tmp_path)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    for factor in (3, 4, 5):
        for used in (factor, 2):
            run(MULTIPLYING.format(factor=used), DFTFD_CACHE_DIR=str(tmp_path), DFTFD_CACHE_SIZE=f"{3 * size} B")
    assert first.exists() and len(list(tmp_path.glob("jit__lambda*"))) < 4
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3 * size


def test_a_folder_open_to_others_is_not_used(tmp_path, folder_of):
    tmp_path.chmod(0o777)
    assert folder_of(DFTFD_CACHE_DIR=tmp_path) is None


def test_a_folder_of_another_user_is_not_used(tmp_path, folder_of):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(tmp_path, 12345, 12345)
    assert folder_of(DFTFD_CACHE_DIR=tmp_path) is None


def test_the_key_is_private(tmp_path, folder_of):
    """Made once, mode 0600; a key that others can read is not used, and so no cache."""
    environment = {"DFTFD_CACHE_DIR": tmp_path / "cache", "XDG_DATA_HOME": tmp_path}
    folder_of(**environment)
    (key,) = (tmp_path / "dftfd").iterdir()
    content = key.read_bytes()
    assert len(content) == 32 and key.stat().st_mode & 0o777 == 0o600
    assert folder_of(**environment) is not None and key.read_bytes() == content
    key.chmod(0o644)
    assert folder_of(**environment) is None


def test_a_size_that_is_none_is_refused(folder_of):
    with pytest.raises(InputError, match="DFTFD_CACHE_SIZE='much' is not a size"):
        folder_of(DFTFD_CACHE_SIZE="much")
