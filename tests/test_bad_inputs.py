"""62 ways of asking wrongly (data/reference/bad_inputs.json): each is answered as the list requires, within 2 seconds.

PySCF 2.14 gives a wrong number for some of them, a traceback from deep inside for many. Here each has a typed error in
Python and one line with the right exit code on the command line, or runs with a warning where it is legal.
"""

import json
import subprocess
import sys
import time
import warnings
import zipfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose
from dftfd.cli import main
from dftfd.errors import (
    CheckpointError,
    CheckpointWarning,
    FileError,
    FunctionalError,
    InputError,
    InputWarning,
    MissingDependencyError,
    NotConvergedError,
    NumericalError,
    ResourceError,
)
from dftfd.functionals.registry import _REGISTRY
from dftfd.grids.molecular import molecular_grid
from dftfd.interop import libxc
from dftfd.runtime.documents import read_tree, write_tree
from dftfd.verify.check import molecular_jet
from tests.sample import sample

LIST = json.loads((Path(__file__).parents[1] / "data/reference/bad_inputs.json").read_text())
EXIT_CODE = {case["id"]: case["exit_code"] for case in LIST["cases"]}
SECONDS = 2.0
HELIUM = "He 0 0 0;"
HYDROGEN = "H 0 0 0; H 0 0 0.74"
ANSWERS = {}
FAULTS = Path(__file__).parents[1] / "examples/faults"


def killed(figures) -> bool:
    """Eight runs, some of them killed inside a write, went on to the energy of the whole run."""
    resumed = figures["resumed"] == figures["kills"] == 8 and figures["unreadable"] == 0
    return resumed and figures["inside a write"] > 0 and figures["largest error of an energy [hartree]"] < 1e-10


OF_PROCESSES = {
    "kill9_then_resume": ("kills.py", 8, killed),
    "same_checkpoint_6_procs": ("sharing.py", 1, lambda f: f["right energies"] == f["calculations"] == 8),
    "ctrl_c": ("interrupts.py", 2, lambda f: f["exit code 130"] == 2 and f["told how to go on"] == f["resumed"]),
}
"""Cases that take other processes: the script that tries them, how often, and what its figures have to be."""


def answers(name):
    """Decorator: the function tries the case `name` of the list and looks at the answer."""

    def enter(function):
        ANSWERS[name] = function
        return function

    return enter


class Asking:
    """Both doors of dftfd, for one case of the list."""

    def __init__(self, name, capsys):
        self.code, self._capsys = EXIT_CODE[name], capsys

    def refused(self, kind, call, *words):
        """`call` raises an error of this kind with the listed exit code, in one line that has the words."""
        start = time.process_time()
        with pytest.raises(kind) as caught:
            call()
        assert time.process_time() - start < SECONDS
        assert caught.value.exit_code == self.code and "\n" not in str(caught.value)
        for word in words:
            assert word in str(caught.value)

    def command(self, *arguments, quick=True):
        """(standard output, standard error) of a command that ends with the listed exit code."""
        start = time.process_time()
        with warnings.catch_warnings():
            code = main([str(argument) for argument in arguments])
        assert not quick or time.process_time() - start < SECONDS
        captured = self._capsys.readouterr()
        assert code == self.code, captured.err
        assert "Traceback" not in captured.err
        return captured.out, captured.err

    def refused_twice(self, kind, arguments, call, *words):
        """Command and call are refused with the same words."""
        self.refused(kind, call, *words)
        out, err = self.command("run", *arguments)
        assert err.startswith("dftfd: error: ") and err.count("\n") == 1 and "total energy" not in out
        for word in words:
            assert word in err


def molecule(text=HELIUM, basis="6-31g", **options):
    return dftfd.molecule(text, basis=basis, **options)


# ------------------------------------------------------------------------------------------------ molecule and basis


@answers("unknown_element")
def _(ask, folder):
    text = "Xx 0 0 0; H 0 0 1"
    ask.refused_twice(InputError, [text], lambda: molecule(text), "unknown element 'Xx'", "atom 1", "Xe")


@answers("element_typo_case")
def _(ask, folder):
    out, _ = ask.command("run", "cl 0 0 0; h 0 0 1.27", "--xc", "hf", "--basis", "sto-3g", quick=False)
    assert "ClH, 18 electrons" in out


@answers("unknown_basis")
def _(ask, folder):
    words = "def2-svpp", "def2-svp", "closest"
    ask.refused_twice(InputError, [HELIUM, "--basis", "def2-svpp"], lambda: molecule(basis="def2-svpp"), *words[:2])


@answers("basis_missing_for_element")
def _(ask, folder):
    arguments = ["U 0 0 0;", "--basis", "6-31g", "--spin", 4]
    ask.refused_twice(InputError, arguments, lambda: molecule("U 0 0 0;", spin=4), "631g", "U")


@answers("wrong_spin_parity")
def _(ask, folder):
    text = "O 0 0 0; H 0 0 1"
    ask.refused_twice(InputError, [text], lambda: molecule(text), "spin=0 does not fit 9 electrons", "1, 3, 5")


@answers("spin_too_large")
def _(ask, folder):
    ask.refused_twice(
        InputError, [HYDROGEN, "--spin", 4], lambda: molecule(HYDROGEN, spin=4), "spin=4 needs 4 unpaired of 2"
    )


@answers("spin_exceeds_basis")
def _(ask, folder):
    arguments = [HELIUM, "--basis", "sto-3g", "--spin", 2]
    words = "2 alpha electrons do not fit into the 1 basis functions"
    ask.refused_twice(InputError, arguments, lambda: molecule(basis="sto-3g", spin=2), words)


@answers("rks_on_open_shell")
def _(ask, folder):
    oxygen = "O 0 0 0; O 0 0 1.2"
    ask.refused_twice(
        InputError,
        [oxygen, "--spin", 2, "--method", "rks"],
        lambda: dftfd.run_scf(molecule(oxygen, spin=2), method="RKS"),
        "RKS needs spin 0",
        "UKS",
    )


@answers("overlapping_atoms")
def _(ask, folder):
    text = "H 0 0 0; H 0 0 0"
    ask.refused_twice(InputError, [text], lambda: molecule(text), "atoms 1 (H) and 2 (H)", "0.1 angstrom")
    near = "H 0 0 0; H 0 0 0.05"
    ask.refused_twice(InputError, [near], lambda: molecule(near), "0.05 angstrom", "allow_close=True")
    assert molecule(near, allow_close=True).n_atoms == 2


@answers("nan_coordinate")
def _(ask, folder):
    atoms = [("H", (0, 0, 0)), ("H", (0, 0, float("nan")))]
    ask.refused_twice(InputError, ["H 0 0 0; H 0 0 nan"], lambda: molecule(atoms), "coordinate z of atom 2 (H) is NaN")


@answers("inf_coordinate")
def _(ask, folder):
    atoms = [("H", (0, 0, 0)), ("H", (0, 0, float("inf")))]
    ask.refused_twice(
        InputError, ["H 0 0 0; H 0 0 inf"], lambda: molecule(atoms), "coordinate z of atom 2 (H) is infinite"
    )


@answers("empty_molecule")
def _(ask, folder):
    ask.refused_twice(InputError, [""], lambda: molecule(""), "the molecule has no atoms")


@answers("zero_electrons")
def _(ask, folder):
    ask.refused_twice(InputError, ["H 0 0 0;", "--charge", 1], lambda: molecule("H 0 0 0;", charge=1), "no electrons")


@answers("negative_electrons")
def _(ask, folder):
    words = "charge +3 exceeds the total nuclear charge 1"
    ask.refused_twice(InputError, ["H 0 0 0;", "--charge", 3], lambda: molecule("H 0 0 0;", charge=3), words)


@answers("angstrom_bohr_mixup")
def _(ask, folder):
    text = "H 0 0 0; H 0 0 1.4"
    with pytest.warns(InputWarning, match="were read in angstrom: should the unit be bohr"):
        molecule(text)
    out, err = ask.command("run", text, "--xc", "hf", "--basis", "sto-3g", quick=False)
    assert "nearest atoms H1-H2 1.4000 angstrom" in out and "total energy" in out
    assert err.startswith("dftfd: warning: ") and err.count("\n") == 1


@answers("unit_typo")
def _(ask, folder):
    ask.refused_twice(
        InputError,
        [HYDROGEN, "--unit", "nm"],
        lambda: molecule(HYDROGEN, unit="nm"),
        "unit='nm': give one of 'angstrom', 'bohr'",
    )


@answers("ecp_forgotten")
def _(ask, folder):
    """The potential is loaded where the basis set has one, 28 of 54 electrons of HI; where it is missing, refused."""
    assert molecule("I 0 0 0; H 0 0 1.6", basis="def2-svp").n_electrons == 26
    ask.refused(InputError, lambda: molecule("Ce 0 0 0;", basis="ma-def2-svp"), "core potential is not in the library")


@answers("code_in_geometry_string")
def _(ask, folder):
    text = f"H 0 0 0; H 0 0 __import__('pathlib').Path('{folder / 'executed'}').touch()or(0.74)"
    ask.refused_twice(InputError, [text], lambda: molecule(text), "expected")
    assert not (folder / "executed").exists()


@answers("coords_string_garbage")
def _(ask, folder):
    text = "H 0 0; H 0 0 0.74"
    ask.refused_twice(InputError, [text], lambda: molecule(text), "line 1: expected 'El x y z'")


@answers("xyz_file_missing")
def _(ask, folder):
    ask.refused_twice(FileError, ["none.xyz"], lambda: molecule("none.xyz"), "file not found", "none.xyz")


# ---------------------------------------------------------------------------------------------------------- options


@answers("attr_typo")
def _(ask, folder):
    ask.refused(InputError, lambda: dftfd.run_scf(molecule(), xcc="pbe"), "no option 'xcc'", "closest ones are xc")
    ask.refused(InputError, lambda: dftfd.run_scf(molecule(), conv_toll=1e-3), "'conv_toll'", "conv_tol")
    _, err = ask.command("run", HELIUM, "--conv-toll", "1e-3")
    assert "--conv-toll" in err and "--conv-tol" in err


@answers("kw_typo")
def _(ask, folder):
    ask.refused(InputError, lambda: molecule(chrage=1), "no option 'chrage'", "charge")
    _, err = ask.command("run", HELIUM, "--chrage", "1")
    assert "--chrage" in err and "--charge" in err


@answers("wrong_len_dm0")
def _(ask, folder):
    call = lambda: dftfd.run_scf(molecule(), guess=np.eye(5))
    ask.refused(InputError, call, "shape (5, 5)", "the basis set has 2 functions")


@answers("nan_dm0")
def _(ask, folder):
    call = lambda: dftfd.run_scf(molecule(), guess=np.full((2, 2), np.nan))
    ask.refused(InputError, call, "guess=<array (2, 2) float64, 4 not finite>")


@answers("x64_disabled")
def _(ask, folder):
    jax.config.update("jax_enable_x64", False)
    try:
        ask.refused(InputError, lambda: dftfd.run_scf(molecule()), "64-bit", "jax_enable_x64")
    finally:
        jax.config.update("jax_enable_x64", True)


# ------------------------------------------------------------------------------------------------------------- grids


@answers("grid_level_bad")
def _(ask, folder):
    call = lambda: dftfd.run_scf(molecule(), grid_level=12)
    ask.refused_twice(InputError, [HELIUM, "--grid-level", 12], call, "grid_level=", "from 0 to 9")


@answers("grid_level_neg")
def _(ask, folder):
    call = lambda: dftfd.run_scf(molecule(), grid_level=-1)
    ask.refused_twice(InputError, [HELIUM, "--grid-level", -1], call, "grid_level=", "from 0 to 9")


@answers("lebedev_bad")
def _(ask, folder):
    call = lambda: dftfd.molecular_grid([2], [[0.0, 0.0, 0.0]], n_radial=50, n_angular=303)
    ask.refused(InputError, call, "303 points", "302", "350")


# ------------------------------------------------------------------------------------------------- functionals by name


@answers("xc_typo")
def _(ask, folder):
    call = lambda: dftfd.run_scf(molecule(), xc="pbee")
    ask.refused_twice(FunctionalError, [HELIUM, "--xc", "pbee"], call, "'pbee'", "closest", "pbe")


@answers("xc_half_name")
def _(ask, folder):
    for name in ("b88", "lda", "0.5*hf + 0.5*b88"):
        with pytest.warns(InputWarning, match="is exchange alone") as caught:
            result = dftfd.run_scf(molecule(), xc=name, grid_level=1)
        assert len(caught) == 1 and result.settings.definition["terms"][0]["name"] in ("gga_x_b88", "lda_x")
    with warnings.catch_warnings(action="error"):
        for name in ("b88,", "gga_x_b88", "pbe", "hf"):
            dftfd.run_scf(molecule(), xc=name, grid_level=1)
    out, err = ask.command("run", HELIUM, "--xc", "lda", "--basis", "sto-3g", quick=False)
    assert "total energy" in out and "exchange alone (lda_x)" in err and err.count("\n") == 1


@answers("xc_empty")
def _(ask, folder):
    ask.refused_twice(
        FunctionalError, [HELIUM, "--xc", ""], lambda: dftfd.run_scf(molecule(), xc=""), "the functional is empty"
    )


@answers("xc_none")
def _(ask, folder):
    ask.refused(FunctionalError, lambda: dftfd.run_scf(molecule(), xc=None), "the functional is None")


@answers("xc_laplacian")
def _(ask, folder):
    """Supported: the exchange energy is libxc's of the same density, gradient, Laplacian and tau on the same grid."""
    helium = molecule()
    grid = molecular_grid(helium.atomic_numbers, helium.coordinates, 1)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    result = dftfd.run_scf(helium, xc="MGGA_X_BR89,", grid=(points, weights), density_fit=False)
    density = molecular_jet(helium, np.concatenate([result.density_matrix] * 2) * 0.5, points)
    exchange = weights @ libxc.reference([(1.0, "mgga_x_br89")], density.variables(), 2).energy
    assert result.converged and result.energies["xc"] == pytest.approx(exchange, rel=1e-10)


@answers("xc_d3_suffix")
def _(ask, folder):
    """Without its package a dispersion correction is refused before the first cycle, with the name of the extra."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyscf.dispersion", None)
        call = lambda: dftfd.run_scf(molecule(), xc="b3lyp-d3bj")
        ask.refused_twice(
            MissingDependencyError, [HELIUM, "--xc", "b3lyp-d3bj"], call, "pip install 'dftfd[dispersion]'"
        )


@answers("code_in_xc_string")
def _(ask, folder):
    text = "__import__('pathlib').Path('executed').touch()*LDA,"
    call = lambda: dftfd.run_scf(molecule(), xc=text)
    ask.refused_twice(FunctionalError, [HELIUM, "--xc", text], call, "can't be read")
    assert not (folder / "executed").exists()


# --------------------------------------------------------------------------------------------------- own functionals


def in_one_variable(code, n):
    return compose(code, n)


def registering(formula, name="bad", **options):
    return lambda: dftfd.functional(name, **options)(formula)


@answers("custom_xc_nan")
def _(ask, folder):
    """Refused at registration where ordinary densities give NaN; at run time where only the tail does."""
    with pytest.raises(FunctionalError, match="'bad' has the energy nan at rho"):
        registering(lambda n: compose(lambda x: x * jnp.nan, n))()
    registering(lambda n: compose(lambda x: jnp.where(x < 1e-4, jnp.nan, x), n), "bad_tail")()
    call = lambda: dftfd.run_scf(molecule(), xc="bad_tail", grid_level=1)
    ask.refused(NumericalError, call, "'bad_tail' is NaN or Inf at", "points of a block", "first where rho = ")


@answers("custom_xc_wrong_shape")
def _(ask, folder):
    ask.refused(FunctionalError, registering(lambda n: 0.1), "returned 0.1", "one number at each r, expected")


@answers("custom_xc_complex")
def _(ask, folder):
    formula = lambda n: compose(lambda x: jax.lax.complex(x, x), n)
    ask.refused(FunctionalError, registering(formula), "returned complex128", "real float64")


@answers("custom_xc_inconsistent_potential")
def _(ask, folder):
    """Potentials are derived; a derivative of the user's own that is not the energy's is found."""

    @jax.custom_jvp
    def slater(n):
        return -0.738558766 * n ** (4 / 3)

    slater.defjvp(lambda n, dn: (slater(n[0]), -1.5 * 0.738558766 * n[0] ** (1 / 3) * dn[0]))
    ask.refused(FunctionalError, registering(lambda n: compose(slater, n)), "its derivative is", "the energy's slope")


@answers("custom_xc_float32")
def _(ask, folder):
    formula = lambda n: compose(lambda x: x.astype("float32"), n)
    ask.refused(FunctionalError, registering(formula), "returned float32", "float64")
    formula = lambda n: compose(lambda x: x.astype("float32").astype("float64"), n)
    ask.refused(FunctionalError, registering(formula), "computes in float32 on the way")


@answers("duplicate_registration")
def _(ask, folder):
    registering(lambda n: n, "twice")()
    with pytest.warns(InputWarning, match="'twice' is redefined: its formula has changed"):
        registering(lambda n: 2.0 * n, "twice")()
    ask.refused(FunctionalError, registering(lambda n: 2.0 * n, "pbe"), "'pbe' is registered already")
    ask.refused(FunctionalError, registering(lambda n: n, "TWICE"), "lower-case")


@answers("functional_spin_asymmetric")
def _(ask, folder):
    formula = lambda rho: compose(lambda x: x[0] ** 2 + 2 * x[1] ** 2, rho)
    ask.refused(FunctionalError, registering(formula), "with the spins exchanged", "spin_symmetric=False")
    registering(formula, spin_symmetric=False)()


@answers("functional_nondifferentiable")
def _(ask, folder):
    branch = lambda n: compose(lambda x: x if x > 1 else 2 * x, n)
    ask.refused(
        FunctionalError, registering(branch), "asks for the value of its argument (if, while", "jax.numpy.where"
    )
    for code in (jnp.floor, lambda x: x * jnp.floor(x), lambda x: jnp.round(1e3 * x)):
        ask.refused(FunctionalError, registering(partial(in_one_variable, code)), "is not differentiable")


@answers("functional_divergent_integrand")
def _(ask, folder):
    formula = lambda n: compose(lambda x: 1e-3 * jnp.exp(1e-3 / x), n)
    registering(formula, "divergent")()
    call = lambda: dftfd.run_scf(molecule(), xc="divergent", grid_level=1)
    ask.refused(NumericalError, call, "functional 'divergent' is NaN or Inf at", "first where rho = ")


@answers("functional_side_effect")
def _(ask, folder):
    rng = np.random.default_rng(1)
    formula = lambda n: compose(lambda x: x * rng.uniform(), n)
    ask.refused(FunctionalError, registering(formula), "and then", "depend on its arguments only")


# --------------------------------------------------------------------------------------------------------------- files

FAST = ("--xc", "lda,vwn", "--basis", "sto-3g", "--grid-level", 0)


def fast(text=HELIUM, **options):
    return dftfd.run_scf(molecule(text, "sto-3g"), xc="lda,vwn", grid_level=0, **options)


def refused_file(ask, path, *words, text=HELIUM):
    """As a checkpoint to go on from and as a guess, in Python and on the command line; the file stays as it is."""
    content = path.read_bytes() if path.exists() else None
    for option in ("restart", "guess"):
        call = lambda option=option: fast(text, **{option: str(path)})
        ask.refused_twice(CheckpointError, [text, *FAST, f"--{option}", path], call, *words)
    assert (path.read_bytes() if path.exists() else None) == content


@answers("chkfile_missing")
def _(ask, folder):
    refused_file(ask, folder / "none.chk", "there is no such file", "none.chk")


@answers("chkfile_corrupt")
def _(ask, folder):
    path = folder / "c.chk"
    path.write_bytes(b"garbage" * 100)
    refused_file(ask, path, "does not begin as files of dftfd do")


@answers("pickle_checkpoint")
def _(ask, folder):
    """Nothing unpickles: neither a pickle that would make a file nor an archive of object arrays is opened."""
    path = folder / "c.pkl"
    path.write_bytes(b"cpathlib\nPath\n(S'executed'\ntR.")
    refused_file(ask, path, "does not begin as files of dftfd do")
    np.savez(folder / "c.npz", a=np.array([{}], dtype=object))
    refused_file(ask, folder / "c.npz", "does not begin as files of dftfd do")
    assert not (folder / "executed").exists()


@answers("zip_bomb_npz")
def _(ask, folder):
    """A hundred megabytes of zeros in a few kilobytes, with a name that leaves the folder: not inflated."""
    path = folder / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escaped.npy", bytes(10**8))
    refused_file(ask, path, "does not begin as files of dftfd do")


@answers("chkfile_other_molecule")
def _(ask, folder):
    path = folder / "he.chk"
    fast(checkpoint=path)
    refused_file(ask, path, "is the checkpoint of", "He", text=HYDROGEN)


@answers("truncated_checkpoint")
def _(ask, folder):
    """Without a previous generation; with one, it is used (tests/test_checkpoint.py)."""
    path = folder / "he.chk"
    fast(checkpoint=path)
    (folder / "he.chk.previous").unlink()
    path.write_bytes(path.read_bytes()[:-1000])
    refused_file(ask, path, "length or checksum differ")


@answers("old_version_checkpoint")
def _(ask, folder):
    path = folder / "he.chk"
    fast(checkpoint=path)
    write_tree(path, read_tree(path) | {"dftfd": {"format": 1, "text": "{}", "arrays": {}}})
    refused_file(ask, path, "has format 1; this version of dftfd reads format 3")


@answers("chkfile_eval")
def _(ask, folder):
    """Code in place of the molecule: PySCF would run it, here the text is not even looked at; nor is it as JSON."""
    path, code = folder / "he.chk", f"__import__('pathlib').Path('{folder / 'executed'}').touch()"
    fast(checkpoint=path)
    tree = read_tree(path)
    write_tree(path, tree | {"mol": code})
    assert fast(restart=path).converged
    write_tree(path, tree | {"dftfd": tree["dftfd"] | {"text": code}})
    (folder / "he.chk.previous").unlink()
    refused_file(ask, path, "is damaged: JSONDecodeError")
    assert not (folder / "executed").exists()


@answers("chkfile_ro_dir")
def _(ask, folder):
    """/proc takes no files, not even from root."""
    with pytest.warns(CheckpointWarning, match="cannot write /proc/x.chk"):
        assert fast(checkpoint="/proc/x.chk").converged
    out, err = ask.command("run", HELIUM, *FAST, "--checkpoint", "/proc/x.chk", quick=False)
    assert "total energy" in out and "the result is complete, but its checkpoint was not written" in err


@answers("disk_full")
def _(ask, folder):
    """A limit on the size of files stands for the full disk, in a process of its own; nothing is left."""
    command = [sys.executable, "-m", "dftfd", "run", HELIUM, *map(str, FAST), "--checkpoint", "he.chk"]
    limited = ["sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == ask.code and "total energy" in done.stdout and "not written" in done.stderr
    assert not list(folder.glob("*he.chk*"))


# -------------------------------------------------------------------------------------------------------------- memory


@answers("huge_grid")
def _(ask, folder):
    """Refused before anything is built, in a thousandth of a second."""
    call = lambda: dftfd.molecular_grid([2, 2], [[0, 0, 0.0], [0, 0, 3.0]], n_radial=20_000_000, n_angular=5810)
    ask.refused(ResourceError, call, "2.3e+11 grid points need", "the limit is", "lower level")


@answers("mem_max")
def _(ask, folder):
    call = lambda: fast(max_memory=1)
    ask.refused_twice(ResourceError, [HELIUM, *FAST, "--max-memory", "1"], call, "max_memory=", "increase the limit")


@answers("oom_killer")
def _(ask, folder):
    """An address space of 6 GB, of which JAX has 2, for a fitting tensor of more: refused before it is computed.

    Exchange needs all of it, for the Coulomb energy alone it would be formed in parts. A cube: of a chain of as many
    atoms, most pairs of functions are far from each other, and are not kept.
    """
    carbon = "; ".join(f"C {1.5 * (k % 4):.1f} {1.5 * (k // 4 % 4):.1f} {1.5 * (k // 16):.1f}" for k in range(64))
    command = [sys.executable, "-m", "dftfd", "run", carbon, "--xc", "b3lyp", "--basis", "def2-svp"]
    limited = ["sh", "-c", 'ulimit -v 6000000; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == ask.code, done.stderr
    assert "density fitting needs" in done.stderr and "the limit is" in done.stderr and "cycle" not in done.stdout


# ----------------------------------------------------------------------------------------------------------- results


@answers("not_converged")
def _(ask, folder):
    oxygen = "O 0 0 0; O 0 0 1.2"
    result = dftfd.run_scf(molecule(oxygen, "sto-3g", spin=2), max_cycles=2, grid_level=1)
    assert not result.converged
    ask.refused(NotConvergedError, lambda: result.dipole, "not converged after 2 cycles", "allow_unconverged=True")
    arguments = ["run", oxygen, "--spin", 2, "--basis", "sto-3g", "--max-cycles", 2, "--grid-level", 1]
    out, err = ask.command(*arguments, quick=False)
    assert "NOT CONVERGED" in out and "dipole" not in out and "not converged after 2 cycles" in err
    out, _ = ask.command(*arguments, "--allow-unconverged", quick=False)
    assert "NOT CONVERGED" in out and "dipole" in out


def test_every_case_is_tried():
    """Each of the 62 has an answer here."""
    assert set(EXIT_CODE) == set(ANSWERS) | set(OF_PROCESSES) and len(EXIT_CODE) == 62


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_PROCESSES)
def test_answer_of_processes(name):
    """Kills, interrupts and processes that share a checkpoint, by the scripts of docs/reliability.md."""
    script, runs, is_right = OF_PROCESSES[name]
    command = [sys.executable, FAULTS / script, "--runs", str(runs)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert is_right(json.loads(done.stdout)), done.stdout


# quick: test_disks of test_faults, "huge_grid", test_nothing_executed
SLOW = ("disk_full", "oom_killer", "chkfile_eval")


@pytest.mark.parametrize("name", sample(sorted(ANSWERS), [name for name in ANSWERS if name not in SLOW]))
def test_answer(name, capsys, tmp_path, monkeypatch):
    """The case is answered as `required` says: error class, exit code, words of the message, in less than 2 s."""
    monkeypatch.chdir(tmp_path)
    registered = dict(_REGISTRY)
    try:
        ANSWERS[name](Asking(name, capsys), tmp_path)
    finally:
        _REGISTRY.clear()
        _REGISTRY.update(registered)
