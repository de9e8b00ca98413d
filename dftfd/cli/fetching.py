"""The command get-libxc: libxc's catalogue where pip has no wheel of jax-xc for this Python or machine."""

import importlib
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from dftfd.cli.commands import app
from dftfd.cli.terminal import say
from dftfd.errors import FileError, MissingDependencyError
from dftfd.runtime.child_processes import run_module

PACKAGE = "jax-xc==0.0.11"
SHA256 = "79522318718f98a0cd863be03fd7e37b79840558d1ba7350d2e21368130c9214"
"""Of its wheel for CPython 3.11, as the Python Package Index publishes it; pip refuses any other file."""

_OF_ANY_WHEEL = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--platform")
_WHEEL = (*_OF_ANY_WHEEL, "manylinux_2_17_x86_64", "--only-binary", ":all:", "--no-deps", "--require-hashes")


@app.command("get-libxc")
def get_libxc():
    """Fetch libxc's catalogue with pip, on any platform.

    dftfd reads the formulas in jax-xc's wheel, which are plain Python; its compiled part is for Python 3.11 and 3.12 on
    x86-64 Linux alone and is never loaded. So the wheel serves every Python, without what it asks for. The one wheel
    whose SHA-256 dftfd knows is taken, wherever pip finds it.
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
            f"{sys.executable} has no pip, which fetches {PACKAGE}; bring it by python -m ensurepip."
        )
    if done.returncode:
        reason = ([line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"])[-1]
        raise FileError(f"pip did not bring {PACKAGE} to {folder}: {reason.removeprefix('ERROR: ')}")
