"""What a quick test may cost: seconds of processor time without compilation, and programs compiled by a file.

--budgets    of pytest: names what takes more than it has; what takes FAILS times as much fails the run (`make test`)

Seconds are those of the machine of data/reliability/durations.json; others are told by a computation that takes
REFERENCE seconds there. A test may take SLACK times as much as it has, since the first one of a process that needs a
functional traces it for all. What compiling takes is left out: it depends on what the cache holds. How tests fall to
processes decides who traces and compiles, and other work on the machine lengthens all: hence the distance to FAILS.
"""

import statistics
import time
from collections import Counter

import pytest

SECONDS, PROGRAMS, SLACK, FAILS = 1.2, 500, 2.0, 4.0
REFERENCE = 0.009

TESTS = {
    "test_audit_code.py::test_programs_of_qcengine": (3, "QCEngine and RDKit"),
    "test_boundary.py::test_a_sample_of_all_values_at_all_positions": (2, "a thousand calls"),
    "test_check.py::test_results_are_kept_shown_and_explained": (3, "draws the whole page twice"),
    "test_checkpoint.py": (3, "processes that are killed"),
    "test_cli_process.py": (3, "starts dftfd as a shell does"),
    "test_compilation_cache.py": (4, "each case is a process or three"),
    "test_designers_loop.py": (2, "formulas of files through whole commands"),
    "test_device_xc.py": (4, "traces the kernels of an accelerator; a process with four devices"),
    "test_dm21.py": (3, "a network of 400,000 numbers"),
    "test_discovery.py::test_nodes_that": (3, "nodes of 189 molecules"),
    "test_dispersion.py::test_whole_calculation": (3, "two programs of others beside ours"),
    "test_energy_door.py": (3, "JAX differentiates a whole energy twice"),
    "test_examples": (4, "examples as they stand"),
    "test_excited_states.py": (3, "forces of excited states by differences"),
    "test_export": (3, "a C compiler, for each function"),
    "test_faults.py::test_definitions": (4, "thousands of damaged definitions"),
    "test_fingerprint.py::test_fingerprints_are_the_same_in_other_processes": (4, "another process"),
    "test_fit.py": (4, "fits are many steps; some are killed and go on"),
    "test_grid_functionals.py::test_slater_exchange": (4, "energy, forces and response of a grid functional"),
    "test_ledger.py::test_a_line_for_each_test_with_its_cost": (3, "pytest, four times"),
    "test_library_": (2, "high derivatives of the longest functionals"),
    "test_libxc_": (2, "libxc's longest functionals"),
    "test_local_hybrids.py": (3, "exact exchange at points, against integrals over both electrons"),
    "test_lowered_random.py::test_formulas_at_random": (7, "ten formulas, to third order"),
    "test_lying_names.py": (3, "processes among files that lie"),
    "test_nonlocal.py": (3, "double integrals by operators and on grids"),
    "test_notes.py": (4, "differences by a field; pages drawn"),
    "test_nothing_executed.py": (4, "processes among traps"),
    "test_open_terms.py": (3, "whole calculations and their derivatives with a term of a user's file"),
    "test_oracle.py": (2, "extended precision"),
    "test_project.py": (3, "reads every file of the house"),
    "test_records.py": (2, "processes that are killed"),
    "test_response.py::test_excitations_are_pyscfs": (3, "each sort of excitations, ours and PySCF's"),
    "test_scf_": (3, "states that take many cycles"),
    "test_shared_code.py": (2, "the same functionals with constants and with operands"),
    "test_solvent.py": (3, "PySCF's solvent beside ours"),
    "test_terms.py::test_matrix_and_response_of_every_term": (3, "a whole energy's response by differences"),
    "test_third_derivatives.py": (3, "third derivatives of kernels by differences"),
    "test_training.py": (3, "derivatives of a whole calculation in both modes"),
    "test_vibrations.py": (2, "Hessians by both methods"),
    "test_workbench.py": (4, "whole pages, and their JavaScript in a process"),
}
"""Beginnings of names of tests, what they may take [s], why."""

FILES = {
    "test_autofd_": (1500, "each expression, on each space, is a program of its own"),
    "test_energy_door.py": (1000, "JAX differentiates operation by operation"),
    "test_fit.py": (1000, "functionals with other numbers, by JAX"),
    "test_lowered_random.py": (1000, "formulas at random"),
    "test_lowering_pairs.py": (1000, "each formula of pairs in several ways"),
    "test_open_terms.py": (1000, "JAX differentiates the energy with a user's term operation by operation"),
    "test_report_card.py": (1000, "whole cards of functionals"),
    "test_terms.py": (1000, "each term's energy, response and gradient"),
    "test_vocabulary.py": (1000, "each operation by JAX, to third order"),
}
"""Beginnings of names of files, programs that they may compile, why."""


def allowed(name: str, table: dict, usual: float) -> float:
    """What a test or file may take: by the longest beginning of its name."""
    found = [start for start in table if name.removeprefix("tests/").startswith(start)]
    return table[max(found, key=len)][0] if found else usual


def exceeded(costs: dict[str, dict], speed: float, slack: float = SLACK) -> list[str]:
    """Lines for what took more than it has; costs: by test, as in the ledger; speed: seconds here for one there.

    slack: how many times its seconds a test may take; a file half as many times its programs.
    """
    lines, programs = [], Counter[str]()
    for test, cost in costs.items():
        programs[test.split("::")[0]] += cost["compilations"]
        taken, given = (cost["cpu"] - cost["compiling"]) / speed, allowed(test, TESTS, SECONDS)
        if taken > slack * given:
            lines.append(f"{test}: {taken:.1f} s of processor time, {given:g} expected")
    for file, count in programs.items():
        if count > slack / SLACK * (given := allowed(file, FILES, PROGRAMS)):
            lines.append(f"{file}: {count} programs compiled, {given:g} expected")
    return lines


def speed() -> float:
    """How much longer this machine takes now than the reference, at least 1."""
    return max(1.0, statistics.median(_computation() for _ in range(9)) / REFERENCE)


def _computation() -> float:
    start = time.process_time()
    things = [(k, str(k), [k]) for k in range(20_000)]
    table = {word: numbers for _, word, numbers in things}
    sum(table[word][0] for _, word, _ in reversed(things))
    return time.process_time() - start


def pytest_addoption(parser):
    parser.getgroup("ledger").addoption(
        "--budgets", action="store_true", help="fail where tests take more than allowed"
    )


def pytest_configure(config):
    if config.getoption("budgets") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Budgets(), "dftfd-budgets")


class Budgets:
    """Lives in the process that sees all reports."""

    def __init__(self):
        self.costs, self.over, self.speed = {}, [], speed()

    def pytest_runtest_logreport(self, report):
        if cost := dict(report.user_properties).get("cost"):
            self.costs[report.nodeid] = cost

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        here = max(self.speed, speed())
        self.over = exceeded(self.costs, here)
        if exceeded(self.costs, here, FAILS) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.over:
            terminalreporter.section("over budget (tests/budgets.py)")
            for line in self.over:
                terminalreporter.line(line)
