"""Compiled programs are kept between processes, and never at the price of a failure."""

import os
import subprocess
import sys

PROGRAM = """
import jax, dftfd
from dftfd.compilation_cache import SHORTEST_COMPILATION
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""


def run(**environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("DFTFD_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_folder_is_made_and_used(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert run(DFTFD_CACHE_DIR=str(folder)) == [str(folder), "0.1"]
    assert folder.is_dir()


def test_empty_variable_switches_the_cache_off():
    assert run(DFTFD_CACHE_DIR="")[0] == "None"


def test_a_folder_chosen_for_jax_is_left_alone(tmp_path):
    assert run(JAX_COMPILATION_CACHE_DIR=str(tmp_path), DFTFD_CACHE_DIR=str(tmp_path / "ours"))[0] == str(tmp_path)
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert run(DFTFD_CACHE_DIR=str(tmp_path / "file" / "cache"))[0] == "None"
