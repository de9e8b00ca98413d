"""Limits of formulas that are read from files, so that an untrusted file is answered within seconds.

Steps are counted, not seconds, so that a formula is refused everywhere or nowhere. The limits are several times what
the 270 formulas of libxc 7.0.0 take: 70,984 steps (hyb_mgga_x_js18) and 3,484 operations (gga_x_beefvdw) at most.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import DecimalException

from dftfd.errors import DftfdError, FunctionalError, shown

MAX_CHARACTERS, MAX_INCLUDES, MAX_STATEMENTS = 200_000, 60, 5_000
MAX_BRACKETS, MAX_NUMBER, MAX_EXPONENT = 40, 100, 400
"""Of a text: brackets in each other, characters and the exponent of a number."""

MAX_STEPS, MAX_OPERATIONS, MAX_EQUATIONS = 200_000, 10_000, 10_000
"""Of one evaluation: expressions looked at, operations on values of JAX, and those of its compiled program."""

MAX_BITS, MAX_ENTRIES, MAX_ORDER, MAX_POWER, MAX_DIFF = 4_000, 10_000, 100, 1_000, 4
"""Of an exact number; of a list with all lists in it; of a series and its powers; derivatives in each other."""


@dataclass
class _Work:
    steps: int = 0
    operations: int = 0
    derivatives: int = 0


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


def spend(steps: int) -> None:
    """Count steps of the evaluation that is under way; FunctionalError where they are too many."""
    work = _work.get()
    if work is not None:
        work.steps += steps
        if work.steps > MAX_STEPS:
            raise FunctionalError(
                f"the formula takes more than {MAX_STEPS} steps to work out; write it in a shorter way."
            )


def count_operation(count: int = 1) -> None:
    """Count operations on values of JAX, which the compiled formula has."""
    work = _work.get()
    if work is not None:
        work.operations += count * 3**work.derivatives
        if work.operations > MAX_OPERATIONS:
            raise FunctionalError(f"the formula has more than {MAX_OPERATIONS} operations; write it shorter.")


@contextmanager
def derivative():
    """Inside, one more derivative is taken: each multiplies the operations of what it is of."""
    work = _work.get() or _Work()
    work.derivatives += 1
    try:
        if work.derivatives > MAX_DIFF:
            raise FunctionalError(f"more than {MAX_DIFF} derivatives in each other.")
        yield
    finally:
        work.derivatives -= 1


@contextmanager
def bounded(what: str):
    """Inside, steps are counted from zero, and whatever a text makes fail is a FunctionalError that names `what`."""
    token = _work.set(_Work())
    try:
        yield
    except DftfdError:
        raise
    except RecursionError as error:
        raise FunctionalError(f"{what}: definitions or expressions in each other without end.") from error
    except DecimalException as error:
        raise FunctionalError(f"{what}: a constant beyond all bounds ({type(error).__name__.lower()}).") from error
    except Exception as error:  # a text can ask any operation for anything
        reason = shown(str(error), 100) if str(error) else type(error).__name__
        raise FunctionalError(f"{what} cannot be worked out: {reason}.") from error
    finally:
        _work.reset(token)
