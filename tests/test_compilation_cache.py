"""Compiled programs are kept between processes, whole or not at all, and never at the price of a failure."""

import os
import signal
import subprocess
import sys

from dftfd.compilation_cache import PREFIX

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
    kept = {k: v for k, v in os.environ.items() if k not in ("DFTFD_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=kept | environment, capture_output=True, text=True
    )


def run(program=PROGRAM, **environment):
    done = process(program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_folder_is_made_and_used(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert run(DFTFD_CACHE_DIR=str(folder)) == [f"{PREFIX}{folder}", "0.1"]
    assert folder.is_dir()


def test_empty_variable_switches_the_cache_off():
    assert run(DFTFD_CACHE_DIR="")[0] == "None"


def test_a_folder_chosen_for_jax_is_left_alone(tmp_path):
    assert run(JAX_COMPILATION_CACHE_DIR=str(tmp_path), DFTFD_CACHE_DIR=str(tmp_path / "ours"))[0] == str(tmp_path)
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert run(DFTFD_CACHE_DIR=str(tmp_path / "file" / "cache"))[0] == "None"


def test_a_killed_writer_leaves_no_half_program(tmp_path):
    """Killed inside the write of a program: the next process finds none, and no warning of JAX comes."""
    folder = tmp_path / "cache"
    assert process(LIMITED.format(answer="SIG_DFL"), DFTFD_CACHE_DIR=str(folder)).returncode == -signal.SIGXFSZ
    assert not list(folder.glob("jit*-cache"))
    assert run(COMPILING, DFTFD_CACHE_DIR=str(folder)) == ["2.0"]
    kept = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert any(name.startswith("jit__lambda") for name in kept)
    assert run(COMPILING, DFTFD_CACHE_DIR=str(folder)) == ["2.0"]
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == kept


def test_a_full_disk_costs_the_cache_only(tmp_path):
    """The write of a program fails: the result is there, without a warning, and no half program is left."""
    assert run(LIMITED.format(answer="SIG_IGN"), DFTFD_CACHE_DIR=str(tmp_path)) == ["2.0"]
    assert not list(tmp_path.iterdir())
