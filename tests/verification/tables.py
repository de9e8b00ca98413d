"""Tables that the site shows where a page has `<!-- table CALL -->`, written from data/ and from dftfd's own tables.

python -m tests.verification.tables libxc_counts    prints one
"""

import csv
import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import numpy as np

from dftfd.functionals.supports import INCLUDES, PROPERTIES, REFUSALS
from dftfd.verify.conditions import CONDITIONS
from dftfd.verify.reports import Report, Row
from tests.verification import findings, passports, proofs, rechecks, regression

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"


def folded(title: str, lines: list[str]) -> str:
    """Markdown that opens with a click on its title."""
    return "\n".join(['<details markdown="1">', f"<summary>{title}</summary>", "", *lines, "", "</details>", ""])


def rows(head: list[str], body) -> list[str]:
    """Lines of a table."""
    line = lambda cells: "| " + " | ".join(str(cell) for cell in cells) + " |"
    return [line(head), line(["---"] * len(head)), *map(line, body)]


def csv_table(name: str, title: str = "") -> str:
    """A CSV file of data/, folded if it has a title."""
    with (DATA / name).open() as file:
        head, *body = csv.reader(file)
    return folded(title, rows(head, body)) if title else "\n".join(rows(head, body))


def blocks(module: str, names: str) -> str:
    """Functions of dftfd.MODULE with the first sentence of their docstrings."""
    loaded = vars(importlib.import_module(f"dftfd.{module}"))
    body = []
    for name in names.split():
        block = loaded[name.removeprefix("@")]
        call = name if name[0] == "@" else f"{name}({', '.join(_arguments(block))})"
        body.append([f"`{call}`", inspect.getdoc(block).partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")])
    return "\n".join(rows(["Function", "Value"], body))


def _arguments(block):
    parameters = inspect.signature(block).parameters.values()
    return ["..." if p.kind == p.VAR_POSITIONAL else p.name for p in parameters]


def report_conditions() -> str:
    """The conditions of report cards."""
    return "\n".join(rows(["Name", "Condition"], ([name, inspect.getdoc(test)] for name, test in CONDITIONS.items())))


# ------------------------------------------------------------------------------------------------ comparison with libxc

COLUMNS = {"energy": "e,", "1st": "de", "2nd": "d2", "3rd": "d3", "v(r)": "v_xc", "matrix": "matrix"}
ROW = ["functional", "quantity", "spins", "difference", "dftfd off by", "libxc off by", "at"]


def compared(folder: Path = DATA / "regression") -> tuple[regression.Comparisons, list[regression.Cause]]:
    """The stored comparison of all functionals and the known causes of differences."""
    return regression.read(folder / "libxc.h5"), regression.explanations(folder / "explanations.json")


def libxc_counts(folder: Path = DATA / "regression") -> str:
    """How many functionals and quantities agree, or differ for which kind of reason."""
    comparisons, causes = compared(folder)
    reports, unknown = comparisons.reports, regression.unexplained(comparisons, causes)
    count = lambda test: sum(bool(test(report)) for report in reports.values())
    found = [row for report in reports.values() for row in report.rows]
    failed = sum(len(report.failures) for report in reports.values())
    decided = sum(len(report.decided) for report in reports.values())
    body = [
        ["compared", len(reports), len(found)],
        ["potential and matrix compared", count(_has_potential), ""],
        ["agree with libxc throughout", count(_agrees), sum(row.agrees for row in found)],
        ["differ by libxc's rounding, dftfd within the tolerance", count(lambda r: r.decided), decided],
        ["differ for a known cause", count(lambda r: r.failures), failed - len(unknown)],
        ["differ without a known cause", len({name for name, _ in unknown}), len(unknown)],
        ["not compared", len(comparisons.skipped), ""],
    ]
    return "\n".join(rows([f"libxc {comparisons.version}", "functionals", "quantities"], body))


def libxc_causes(folder: Path = DATA / "regression") -> str:
    """Each cause, with its differences folded."""
    comparisons, causes = compared(folder)
    failed = [(name, row) for name, report in comparisons.reports.items() for row in report.failures]
    lines = []
    for cause in causes:
        own = [(name, row) for name, row in failed if regression.cause_of(name, row, causes) is cause]
        title = f"Differences: {len(own)}, of {', '.join(dict.fromkeys(name for name, _ in own))}"
        lines += [f"### {cause.title}", "", cause.why, "", folded(title, rows(ROW, map(_cells, own)))] if own else []
    unknown = regression.unexplained(comparisons, causes)
    lines += ["### Differences without a known cause", "", *rows(ROW, map(_cells, unknown))] if unknown else []
    return "\n".join(lines)


def libxc_numbers(folder: Path = DATA / "regression") -> str:
    """The largest difference of each functional, what rounding in libxc explains, and what was not compared."""
    comparisons, _ = compared(folder)
    reports = comparisons.reports
    body = []
    for name, report in reports.items():
        verdict = "" if _agrees(report) else "decided" if report.passed else "differs"
        body.append([name, *(_largest(report, start) for start in COLUMNS.values()), verdict])
    decided = [(name, row) for name, report in reports.items() for row in report.decided]
    reasons = [f"- {name}: {reason}" for name, reason in comparisons.skipped.items()]
    return "\n".join(
        [
            folded("Largest difference of each functional", rows(["functional", *COLUMNS, "verdict"], body)),
            folded(f"Rounding in libxc: {len(decided)} differences", rows(ROW, map(_cells, decided))),
            folded("Not compared: names and reasons", reasons),
        ]
    )


def _cells(found: tuple[str, Row]):
    name, row = found
    both = ("", "") if row.decision is None else (row.decision.ours, row.decision.reference)
    errors = [f"{value:.0e}" if value != "" else "" for value in (row.error, *both)]
    return [name, row.quantity, row.n_spin, *errors, row.where]


def _has_potential(report: Report) -> bool:
    return any(row.quantity.startswith("v_xc") for row in report.rows)


def _agrees(report: Report) -> bool:
    return all(row.agrees for row in report.rows)


def _largest(report: Report, start: str) -> str:
    errors = [row.error for row in report.rows if row.quantity.startswith(start)]
    return f"{np.max(errors):.0e}" if errors else ""


# --------------------------------------------------------------------------------------------------- what is supported

PLACES = {
    "functional {name}": "the functional",
    "functional {models}": "the model",
    "{name}": "the functional",
    "{models}": "the model",
    "{grid_functionals}": "the grid functional",
    "{correction}": "the correction",
    "{parent}": "the functional",
}


def supported() -> str:
    """Each property and what it does not work with."""

    def refused(name):
        own = [row for row in REFUSALS if row.property == name]
        return [*own, *(row for other in INCLUDES.get(name, ()) for row in refused(other))]

    features = lambda name: dict.fromkeys(" and ".join(row.features) for row in refused(name))
    body = [[name, calls, ", ".join(features(name)) or "none"] for name, calls in PROPERTIES.items()]
    return "\n".join(rows(["Property", "Function", "Not with"], body))


def refusals() -> str:
    """The reason for each combination that is refused, folded."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in REFUSALS:
        found.setdefault((" and ".join(row.features), row.reason), []).append(row.property)
    body = []
    for (features, reason), properties in found.items():
        for mark, words in PLACES.items():
            reason = reason.replace(mark, words)
        body.append([features, ", ".join(properties), reason])
    return folded("The reason for each combination", rows(["With", "Not supported", "Reason"], body))


# ------------------------------------------------------------------------------------- findings, programs, passports


def first_findings() -> str:
    """What the first examination found, before and after, folded."""
    return folded("Findings with their numbers", findings.table(json.loads(findings.RECORD.read_text())).splitlines())


def audited_programs() -> str:
    """A row for each program and molecule that was audited, folded."""
    outcomes = json.loads((DATA / "audits" / "programs.json").read_text())
    outcomes = [outcome for outcome in outcomes if outcome["verdict"] != "not offered"]
    body = []
    for program, molecule in dict.fromkeys((o["program"], o["molecule"]) for o in outcomes):
        own = [o for o in outcomes if (o["program"], o["molecule"]) == (program, molecule)]
        right = sum(o["verdict"] == "consistent" for o in own)
        others = "; ".join(_verdict(o) for o in own if o["verdict"] != "consistent")
        body.append([program, molecule, f"{right} of {len(own)}", others])
    head = ["Program", "Molecule", "Consistent", "Inconsistent, undecided, failed"]
    return folded("All programs and molecules", rows(head, body))


def _verdict(outcome):
    if outcome["verdict"] == "FAILED":
        return f"{outcome['check']} failed"
    word = "" if outcome["verdict"] == "INCONSISTENT" else f" {outcome['verdict']}"
    pattern = f" ({outcome['pattern']})" if outcome["pattern"] else ""
    return f"{outcome['check']}{word} {outcome['deviation']:.0e}{pattern}"


def passport_counts() -> dict:
    """functionals, with a counterpart in libxc, agreeing with it; pairs of names with the same passport."""
    found = passports.stored()["functionals"]
    differences = [row["libxc"]["difference"] for row in found.values() if row["libxc"]]
    agree = sum(difference < passports.LARGE for difference in differences)
    pairs = passports.same_energies(found)
    return {"all": len(found), "compared": len(differences), "agree": agree, "pairs": pairs}


def all_passports() -> str:
    """Neon and krypton, error bar and differences from libxc and from 50 digits, by functional, folded."""
    document, body = passports.stored(), []
    for name, row in document["functionals"].items():
        bar, other = max(error for _, error in row["atoms"].values()), row["libxc"]
        shown = "" if other is None else f"{other['difference']:.0e}"
        if other is not None and not other["difference"] < passports.LARGE:
            shown += f" ({other['atom']})"
        energies = (f"{row['atoms'][symbol][0]:.10f}" for symbol in ("Ne", "Kr"))
        body.append([f"`{name}`", *energies, f"{bar:.0e}", shown, f"{row['digits']:.0e}"])
    table = rows(["functional", "neon", "krypton", "error bar", "libxc", "50 digits"], body)
    return folded("All functionals", [*table, "", f"Without a semilocal energy: {', '.join(document['without'])}."])


# --------------------------------------------------------------------------------------- proofs, names of the catalogue


def proved() -> str:
    """What was decided of each condition and functional."""
    return proofs.table()


def rechecked() -> str:
    """XCVerifier's pairs, with the boxes of their certificates that hold when rechecked."""
    return rechecks.tables()


def grid_searched() -> str:
    """Pederson and Burke's grid search, compared row by row."""
    from tests.verification import grid_search

    return grid_search.page()


SORTS = (
    (" at the 99th percentile", "energy or derivatives differ from libxc 7's by more than the limits"),
    ("is not finite", "derivatives are not finite at some points"),
    ("its kernel calls", "the kernel calls a function that jax-xc does not have"),
    ("its exact exchange", "exact exchange is screened by exp(-omega r), for which there are no integrals"),
    ("no functional", "libxc 7 does not have it"),
)
"""Parts of reasons that differ by the numbers of one name alone, and what they have in common."""


def unserved(verdicts: str) -> str:
    """Reasons for which names of libxc's catalogue are refused, each with its names.   verdicts: a file."""
    found: dict[str, list[str]] = {}
    for name, text in sorted(json.loads((ROOT / "functionals" / verdicts).read_text())["refused"].items()):
        why = text.partition("; ")[0]
        for part, sort in SORTS:
            why = sort if part in why else why
        found.setdefault(re.sub(r"libxc's '\w+' has", "libxc has", why), []).append(f"`{name}`")
    body = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return folded("Names and reasons", rows(["Reason", "Names"], [[why, ", ".join(names)] for why, names in body]))


if __name__ == "__main__":
    print(globals()[sys.argv[1]]())
