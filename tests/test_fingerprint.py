"""A formula that was edited is another functional, whatever its name: for records, results and fingerprints."""

import subprocess
import sys
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose
from dftfd.autofd.scalar.keys import code_fingerprint, value_key
from dftfd.errors import FunctionalError
from dftfd.functionals import registry
from dftfd.functionals.fingerprint import program_fingerprint
from tests.sample import sample

HELIUM = "He 0 0 0;"
TABLE = np.arange(3000.0)
SPEC = jax.ShapeDtypeStruct((3,), np.float64)


def entered(power):
    """The functional `mine`, -n^power, in place of the one that had the name before."""
    registry._REGISTRY.pop("mine", None)
    return dftfd.functional("mine")(lambda n: compose(lambda n: -(n**power), n))


def test_a_record_does_not_give_the_energy_of_the_formula_before(tmp_path):
    """The energy of helium by a batch with a record: another one after the exponent has changed, known after that."""
    energies, record = [], tmp_path / "record.jsonl"
    for power, says in (
        (1.3, nullcontext()),
        (1.4, pytest.warns(match="has changed since the results")),
        (1.4, nullcontext()),
    ):
        mine = entered(power)
        with says:
            (outcome,) = dftfd.run_batch([HELIUM], mine, record=record, molecule_options={"basis": "sto-3g"})
        energies.append(outcome.energy)
        direct = dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), mine)
        assert outcome.energy == pytest.approx(direct.energy, abs=1e-9)
    assert abs(energies[0] - energies[1]) > 1e-3
    assert len(record.read_text().splitlines()) == 2


def test_a_result_is_refused_by_another_formula_of_its_name(tmp_path):
    """And accepted by the same formula, made anew."""
    result = dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), entered(1.3))
    result.save(tmp_path / "he.h5")
    entered(1.3)
    assert dftfd.load_result(tmp_path / "he.h5").energy == result.energy
    for other in (None, entered(1.4)):
        with pytest.raises(FunctionalError, match="formula of functional 'mine' is not the one"):
            dftfd.load_result(tmp_path / "he.h5", functional=other)


def with_rule(slope):
    @jax.custom_jvp
    def code(x):
        return -x * x

    code.defjvp(lambda x, dx: (code(*x), slope * x[0] * dx[0]))
    return code


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def with_rule_of(slope, x):
    return -x * x


with_rule_of.defjvp(lambda slope, x, dx: (with_rule_of(slope, *x), slope * x[0] * dx[0]))


EDITS = {
    "a number": (lambda x: 2.0 * x[0], lambda x: 2.0000000000000004 * x[0]),
    "an operation": (lambda x: jnp.sin(x[0]), lambda x: jnp.cos(x[0])),
    "an operand": (lambda x: x[0] - x[1], lambda x: x[1] - x[0]),
    "a branch": tuple(lambda x, k=k: jax.lax.cond(x[0] > 0, lambda y: k * y, jnp.sin, x[1]) for k in (1.0, 2.0)),
    "a length": tuple(lambda x, k=k: jax.lax.fori_loop(0, k, lambda i, y: y * x[0], x[1]) for k in (2, 3)),
    "a derivative rule": tuple(lambda x, f=f: f(x[0]) for f in (with_rule(-2.0), with_rule(-1.0))),
    "one of two derivative rules": tuple(
        lambda x, f=f, g=g: f(x[0]) + g(x[0]) for f, g in [(with_rule(-2.0),) * 2, (with_rule(-2.0), with_rule(-1.0))]
    ),
    "a number that a derivative rule is given": tuple(
        lambda x, k=k: with_rule_of(-2.0, x[0]) + with_rule_of(k, x[0]) for k in (-2.0, -1.0)
    ),
    "a table": tuple(lambda x, t=t: jnp.asarray(t)[x[0].astype(int)] for t in (TABLE, TABLE + 1)),
}


def test_values_that_differ_have_other_keys():
    """Arrays of the same bytes, a long table that differs in its last entry, numbers that Python takes for equal."""
    late = np.append(TABLE[:-1], -1.0)
    same_bytes = np.zeros(4), np.zeros((2, 2)), np.zeros(4, int)
    modes = jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.FILL_OR_DROP
    numbers = (1, 1.0, True, "1"), (0.0, -0.0), ((1,), [1]), ({1: 2}, {1: 3})
    for different in (same_bytes, (TABLE, late), modes, *numbers):
        assert len({value_key(value) for value in different}) == len(different)


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_changes_the_fingerprint(edit):
    before, after = EDITS[edit]
    assert code_fingerprint(before, SPEC) == code_fingerprint(lambda x: before(x), SPEC)
    assert code_fingerprint(before, SPEC) != code_fingerprint(after, SPEC)


@pytest.mark.parametrize("everything", sample([False, True], [False]))
def test_fingerprints_are_the_same_in_other_processes(everything):
    """With another seed of Python's hashes: of formulas with roots of their own rules, loops, and double integrals."""
    names = ["lda_x", "pbe"] if not everything else ["pbe", "mgga_x_br89", "vv10"]
    code = f"""
import dftfd
from dftfd.functionals.fingerprint import program_fingerprint
print(*[program_fingerprint(dftfd.get_functional(name)) for name in {names!r}])
"""
    expected = [program_fingerprint(dftfd.get_functional(name)) for name in names]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "1"})
    assert run.stdout.split() == expected, run.stderr
