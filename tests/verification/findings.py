"""What examiners found on the first version, tried again: each finding as a few lines of public names.

    python -m tests.verification.findings [--package FOLDER] [--save before|after] [NAME ...]

FOLDER holds another dftfd, such as that of commit 48c8379, on which they found it; the installed one by default. Each
runs in a process and a folder of its own. --save keeps the answers in data/reliability/findings.json. A finding gives
(what is found, what is right, how far they may differ), or REFUSED in the place of what is right where the right answer
is an error of dftfd; a refusal is never wrong, and another exception never right.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "data" / "reliability" / "findings.json"
REFUSED = "an error of dftfd"
LIMIT = 600  # seconds
FINDINGS = {}
WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


def finding(name, title, tests):
    """Decorator: the function tries the finding of this name, which these files of tests hold mended."""

    def enter(function):
        FINDINGS[name] = title, function, tests
        return function

    return enter


def small(text="He 0 0 0;", basis="sto-3g", **options):
    import dftfd

    return dftfd.molecule(text, basis=basis, **options)


def on_an_interval():
    """(autofd, functions f and d on [0, 1], dE[d] by differences)."""
    import jax.numpy as jnp

    from dftfd import autofd as fd

    X = fd.interval(40, 0.0, 1.0, name="x")
    f, d = fd.function(lambda x: jnp.sin(3 * x) + 1.5, X), fd.function(lambda x: jnp.exp(-x), X)

    def slope(E, h=1e-5):
        return (8 * (E(f + h * d) - E(f - h * d)) - (E(f + 2 * h * d) - E(f - 2 * h * d))) / (12 * h)

    return fd, f, d, slope


def is_executed(plant) -> str:
    """Whether a calculation in a folder with a crafted file leaves the mark of its code."""
    home = Path.cwd()
    plant(f"open('{home}/mark','w')")
    code = "import dftfd; dftfd.run_scf(dftfd.molecule('H 0 0 0; H 0 0 0.74', basis='sto-3g'), 'lda')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "HOME": str(home)}, capture_output=True)
    return "executed" if (home / "mark").exists() else "not executed"


@finding(
    "A1", "merged control flow: E_xc of helium with two conds [hartree]", "test_lowered.py, test_lowered_random.py"
)
def _():
    from jax import lax
    from pyscf import dft, gto

    import dftfd
    from dftfd import autofd as fd

    def two(n):
        first = lax.cond(n < 0.1, lambda n: -(n**1.2), lambda n: -1.5 * n**1.3, n)
        return first + lax.cond(n < 0.1, lambda n: -0.1 * n**1.1, lambda n: -0.2 * n**1.4, n)

    mine = dftfd.functional("two_conds")(lambda n: fd.compose(two, n))
    found = dftfd.run_scf(small(), mine).energies["xc"]
    mole = gto.M(atom="He", basis="sto-3g", verbose=0)
    grid = dft.Grids(mole).build()
    n = 2 * mole.eval_gto("GTOval", grid.coords)[:, 0] ** 2  # one orbital, twice
    thin = -(n**1.2) - 0.1 * n**1.1
    return found, (grid.weights * (thin * (n < 0.1) + (-1.5 * n**1.3 - 0.2 * n**1.4) * (n >= 0.1))).sum(), 1e-3


@finding("A2, G1", "steep shells: energy of neon-like xenon, dyall v2z, against PySCF's [hartree]", "test_bounds.py")
def _():
    from pyscf import dft, gto

    import dftfd

    mf = dft.RKS(gto.M(atom="Xe", basis="dyallv2z", charge=44, verbose=0))
    mf.xc, mf.conv_tol, mf.grids.level = "lda,vwn", 1e-10, 4
    xenon = small("Xe 0 0 0;", "dyallv2z", charge=44)
    return dftfd.run_scf(xenon, "lda,vwn", density_fit=False, grid_level=4).energy, mf.kernel(), 1e-5


@finding("A3", "jax.grad of a Function that holds an array: the derivative at a point", "test_autofd_jax_syntax.py")
def _():
    import jax
    import jax.numpy as jnp

    fd, f, _, _ = on_an_interval()
    c = jnp.asarray(2.0)
    g = fd.function(lambda x: c * jnp.sin(x) + 1, f.domains[0])
    value = float(g(0.3))
    return jax.grad(lambda f: fd.integrate(fd.exp(f) * f))(g)(0.3), jnp.exp(value) * (1 + value), 1e-6


@finding("A4", "outer function of a composition on [0, 1]: the pairing", "test_autofd_measures.py")
def _():
    fd, f, d, slope = on_an_interval()
    x = fd.identity(f.domains[0])
    E = lambda f: fd.integrate((1 + x * x) * f(0.5 * x) ** 2)
    return fd.integrate(fd.grad(E)(f) * d), slope(E), 1e-6


@finding("A5", "a quadrature of its own beside the domain's: the pairing", "test_autofd_measures.py")
def _():
    fd, f, d, slope = on_an_interval()
    X = f.domains[0]
    E = lambda f: fd.integrate(f, quadrature=(X.points, 2 * X.weights)) + fd.integrate(f)
    return fd.integrate(fd.grad(E)(f) * d), slope(E), 1e-6


@finding("A6", "nabla of an integral transform: the pairing", "test_autofd_measures.py")
def _():
    import jax.numpy as jnp

    fd, f, d, slope = on_an_interval()
    k = fd.function(lambda x, y: jnp.exp(-5 * (x - y) ** 2), f.domains[0], f.domains[0])
    E = lambda f: fd.integrate(fd.nabla(k @ f) ** 2)
    return fd.integrate(fd.grad(E)(f) * d), slope(E), 1e-6


@finding("A7", "jax.linear_transpose of exp", "test_autofd_jax_syntax.py")
def _():
    import jax

    fd, f, d, _ = on_an_interval()
    return jax.linear_transpose(lambda f: fd.exp(f), fd.as_leaf(f))(fd.as_leaf(d))[0](0.3), REFUSED, 0


@finding("A8", "stability of a model of the potential, which has no energy", "test_terms.py")
def _():
    import dftfd

    return dftfd.run_scf(small(basis="6-31g"), "lb94").stability(), REFUSED, 0


@finding("A11", "the energy of a record after the formula has changed [hartree]", "test_fingerprint.py")
def _():
    import dftfd
    from dftfd import autofd as fd
    from dftfd.functionals import registry

    def made(power):
        registry._REGISTRY.pop("mine", None)
        return dftfd.functional("mine")(lambda n: fd.compose(lambda n: -(n**power), n))

    for mine in map(made, (1.3, 1.4)):
        (outcome,) = dftfd.run_batch(["He 0 0 0;"], mine, record="record.jsonl", molecule_options={"basis": "sto-3g"})
    return outcome.energy, dftfd.run_scf(small(), mine).energy, 1e-8


@finding("A12, G3", "result.to_pyscf() of a fitted result, HF molecule, B3LYP [hartree]", "test_to_pyscf.py")
def _():
    import dftfd

    result = dftfd.run_scf(dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="def2-svp"), "b3lyp")
    mf = result.to_pyscf()
    mf.conv_tol, mf.verbose = 1e-10, 0
    return mf.kernel(), result.energy, 1e-7


@finding("A13", "energy in a trajectory, which readers take for eV", "test_optimization.py")
def _():
    import re

    import dftfd

    outcome = dftfd.optimize(small("H 0 0 0; H 0 0 0.8"), "lda", trajectory="path.xyz")
    last = re.findall(r"(?<![\w])energy=(\S+)", Path("path.xyz").read_text())[-1]
    return float(last), outcome.energies[-1] * 27.211386245988, 1e-3


@finding("A14", "charge= in the comment of an xyz file", "test_geometry_input.py")
def _():
    import dftfd

    Path("cation.xyz").write_text("2\ncharge=1 multiplicity=2\nH 0 0 0\nH 0 0 1.05\n")
    return dftfd.molecule("cation.xyz", basis="sto-3g").charge, 1, 0


@finding("A16", "slope of f**(4/3) where f is zero", "test_autofd_measures.py")
def _():
    import jax.numpy as jnp

    fd, f, _, _ = on_an_interval()
    tail = fd.function(lambda x: jnp.exp(-800 * x * x), f.domains[0])
    return fd.grad(lambda f: fd.integrate(f ** (4 / 3)))(tail)(1.2), 0.0, 1e-12


@finding("A16, jvp", "jax.jvp of a family of Functions with respect to its parameter", "test_autofd_jax_syntax.py")
def _():
    import jax
    import jax.numpy as jnp

    fd, f, _, _ = on_an_interval()
    family = lambda a: fd.as_leaf(fd.function(lambda a, x: jnp.exp(a * x), f.domains[0], params=(a,)))
    found = jax.jvp(family, (jnp.asarray(0.7),), (jnp.asarray(1.0),))[1](0.3)
    return found, 0.3 * jnp.exp(0.21), 1e-9


@finding("B1", "a file named ano in the current folder", "test_nothing_executed.py")
def _():
    lines = lambda code: f"#BASIS SET: x\nH    S\n      ({code},1.0)[1]   1.0\nEND\n"
    return is_executed(lambda code: Path("ano").write_text(lines(code))), "not executed", 0


@finding("B2", "a file .pyscf_conf.py in the current folder", "test_nothing_executed.py")
def _():
    return is_executed(lambda code: Path(".pyscf_conf.py").write_text(code)), "not executed", 0


@finding("C1", "raw exceptions of seven calls with wrong types", "test_boundary.py")
def _():
    import dftfd
    from dftfd.errors import DftfdError

    result = dftfd.run_scf(small(), "lda")
    calls = (
        lambda: dftfd.get_functional("pbe", exact_exchange="x"),
        lambda: dftfd.optimize(small("H 0 0 0; H 0 0 0.8"), "lda", constraints=3),
        lambda: dftfd.run_batch(["He 0 0 0;"], "lda", record=3.5),
        lambda: dftfd.interaction_energy(3, "lda"),
        lambda: result.v_xc("here"),
        lambda: result.density(object()),
        lambda: result.write("x.cube", points="many"),
    )
    raw = 0
    for call in calls:
        try:
            call()
        except DftfdError:
            pass
        except Exception:
            raw += 1
    return raw, 0, 0


@finding("C3", "jnp.exp of a Function", "test_registration.py")
def _():
    import jax.numpy as jnp

    _, f, _, _ = on_an_interval()
    return jnp.exp(f), REFUSED, 0


@finding("D1", "growth of a descent: nodes after nine steps over those after four", "test_autofd_vectors.py")
def _():
    try:
        from dftfd.autofd.core.function import nodes_of
    except ImportError:
        from dftfd.autofd.function import nodes_of
    fd, f, d, _ = on_an_interval()
    counts = []
    for _ in range(9):
        f = f - 0.1 * fd.grad(lambda f: fd.integrate((f - d) ** 2))(f)
        counts.append(len(nodes_of(f)))
    return counts[8] / counts[3], 9 / 4, 0.75


@finding("D2", "runs of a functional for five products with its derivative", "test_autofd_vectors.py")
def _():
    fd, f, _, _ = on_an_interval()
    runs = []

    def E(f):
        runs.append(1)
        return fd.integrate(f * f)

    pull = fd.vjp(E, f)[1]
    for _ in range(5):
        pull(1.0)
    return len(runs), 1, 0


@finding("G2", "highest occupied orbital of water with smearing [hartree]", "test_scf_methods.py")
def _():
    import dftfd

    frontier = lambda **options: dftfd.run_scf(dftfd.molecule(WATER), "pbe", **options).frontier[0][0]
    return frontier(smearing=0.001), frontier(), 1e-4


@finding("G4", "the name vv10, a part here and a whole functional in PySCF", "test_to_pyscf.py")
def _():
    import dftfd

    return dftfd.run_scf(small(), "vv10").energy, REFUSED, 0


@finding("G5", "mf.nlc = 'vv10' beside numint('pbe') [hartree]", "test_to_pyscf.py")
def _():
    from pyscf import dft, gto

    from dftfd.interop.pyscf import numint

    def energy(ours):
        mf = dft.RKS(gto.M(atom="He", basis="sto-3g", verbose=0))
        mf.xc, mf.nlc = "pbe", "vv10"
        if ours:
            mf._numint = numint("pbe")
        return mf.kernel()

    return energy(True), energy(False), 1e-8


@finding("G8", "entries of PySCF's second derivatives of a GGA", "test_to_pyscf.py")
def _():
    import numpy as np

    from dftfd.interop.pyscf import numint

    return len(numint("pbe").eval_xc("", np.full((4, 3), 0.3), 0, deriv=2)[2]), 3, 0


@finding("G9", "a fully polarised, dense atom in a functional of the catalogue [hartree]", "test_to_pyscf.py")
def _():
    from pyscf import dft, gto

    import dftfd

    mf = dft.UKS(gto.M(atom="Ne", basis="def2-svp", charge=9, spin=1, verbose=0))
    mf.xc, mf.conv_tol = "b97", 1e-10
    neon = dftfd.molecule("Ne 0 0 0;", charge=9, spin=1)
    return dftfd.run_scf(neon, "b97", density_fit=False).energy, mf.kernel(), 1e-6


@finding("G10", "electrons that a calculation with given occupations prints", "test_terms.py")
def _():
    import dftfd

    text = str(dftfd.run_scf(dftfd.molecule(WATER, basis="sto-3g"), "pbe", occupations=[2, 2, 2, 2]))
    return "8" if "8 electrons" in text else "10" if "10 electrons" in text else text, "8", 0


@finding(
    "G12",
    "is the oxygen atom unstable? Lowest eigenvalue beyond what the grid leaves uncertain",
    "test_scf_ground_states.py",
)
def _():
    import dftfd

    found = dftfd.run_scf(dftfd.molecule("O 0 0 0;", spin=2), "pbe", density_fit=False).stability()
    return bool(found.is_stable), True, 0


@finding("G13", "omega of a sum with range-separated exchange", "test_to_pyscf.py")
def _():
    from pyscf import dft, gto

    from dftfd.interop.pyscf import numint

    def energy(ours):
        mf = dft.RKS(gto.M(atom="He", basis="sto-3g", verbose=0))
        mf.xc = "lda + .2*sr_hf(0.3)"
        if ours:
            mf._numint = numint(mf.xc)
        mf.omega = 0.5
        return mf.kernel()

    return energy(True), energy(False), 1e-8


@finding("G14", "energy per electron where one spin density is negative [hartree]", "test_to_pyscf.py")
def _():
    import numpy as np

    try:
        from dftfd.interop.libxc import evaluate
    except ImportError:
        from dftfd.interop.libxc import evaluate
    found = evaluate("lda,vwn", rho=np.array([[-5.755680e-4], [5.758269e-4]])).exc
    return float(abs(found[0])), 0.0, 1.0


# ------------------------------------------------------------------------------------------------------------- running


def answer(name: str) -> dict:
    """{verdict, found, right} of one finding, in this process."""
    from dftfd.errors import DftfdError

    warnings.simplefilter("ignore")
    try:
        found, right, allowed = FINDINGS[name][1]()
    except DftfdError as error:
        return {"verdict": "refused", "found": f"{type(error).__name__}: {str(error)[:150]}"}
    except Exception as error:
        return {"verdict": "raw error", "found": f"{type(error).__name__}: {str(error)[:150]}"}
    if isinstance(right, str):
        verdict, found = "right" if found == right else "wrong", str(found)[:60]
    else:
        found, right = float(found), float(right)
        verdict = "right" if abs(found - right) <= allowed else "wrong"
    return {"verdict": verdict, "found": found, "right": right}


def shown(answer: dict | None) -> str:
    """An answer in a cell of the table."""
    if not answer:
        return "not tried"
    if answer["verdict"] in ("refused", "raw error"):
        return f"{answer['verdict']} ({answer['found'].partition(':')[0]})"
    found = answer["found"]
    return f"{found:.10g}" if isinstance(found, float) else found


def table(record: dict) -> str:
    """All findings, before and after, in Markdown."""
    rows = ["| Finding | 48c8379 | Now | Right | Tests |", "| --- | --- | --- | --- | --- |"]
    for name, (title, _, tests) in FINDINGS.items():
        before, after = (record.get(name, {}).get(when) for when in ("before", "after"))
        right = next((a["right"] for a in (after, before) if a and "right" in a), REFUSED)
        right = f"{right:.10g}" if isinstance(right, float) else right
        rows.append(f"| {name}: {title} | {shown(before)} | {shown(after)} | {right} | `{tests}` |")
    return "\n".join(rows) + "\n"


def main(arguments=None) -> int:
    """Try findings, each in a process; the number of those that are not as they have to be."""
    parser = argparse.ArgumentParser(prog="findings", description="What examiners found, tried again.")
    parser.add_argument("names", nargs="*", default=list(FINDINGS))
    parser.add_argument("--package", type=Path, help="folder that holds another dftfd")
    parser.add_argument("--save", choices=("before", "after"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(answer(given.one)))
        return 0
    package = given.package or ROOT
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    wrong = 0
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(
                    [sys.executable, __file__, "--one", name],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": str(package.resolve()), "PYTHONSAFEPATH": "1"},
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                )
                found = json.loads(done.stdout.splitlines()[-1])
            except subprocess.TimeoutExpired:
                found = {"verdict": "no end", "found": f"longer than {LIMIT} s"}
            except IndexError:
                found = {"verdict": "raw error", "found": done.stderr.strip().splitlines()[-1][:150]}
        wrong += found["verdict"] not in ("right", "refused")
        print(f"{name}: {FINDINGS[name][0]}: {found}", flush=True)
        if given.save:
            record.setdefault(name, {"title": FINDINGS[name][0]})[given.save] = found
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main()))
