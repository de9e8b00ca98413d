"""What a benchmark found: errors of each reaction, in tables, as CSV, JSON and LaTeX.

Means have confidence intervals by bootstrap: B. Efron, Ann. Statist. 7, 1 (1979). doi:10.1214/aos/1176344552
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dftfd.benchmarks.energies import Computed
from dftfd.benchmarks.page import page_of
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction
from dftfd.errors import InputError, one_line
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.files import write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.plain_text import csv_table, in_latex

RESAMPLES, SEED = 2000, 20261122
CONFIDENCE = 95
"""Percent of the resampled means that lie inside an interval."""

SMALL, LARGE = 7.5, 75.0
"""Mean absolute reference energies [kcal/mol] below and above which WTMAD-1 weights errors by 10 and 0.1."""


@dataclass(frozen=True)
class Statistics:
    """Errors, computed less reference [kcal/mol].

    n: how many reactions, of `total`.   largest: the error of largest magnitude, of the reaction `worst`.
    low, high: where the mean absolute error lies with 95 % confidence, if these reactions are a sample of many.
    """

    n: int
    total: int
    mean: float
    mean_absolute: float
    root_mean_square: float
    largest: float
    worst: str
    low: float
    high: float


def statistics_of(errors: Sequence[float], names: Sequence[str], total: int) -> Statistics | None:
    """The Statistics of some errors, None of none."""
    if not len(errors):
        return None
    values = np.asarray(errors, dtype=float)
    magnitude = np.abs(values)
    worst = int(np.argmax(magnitude))
    low, high = interval(magnitude)
    return Statistics(
        len(values),
        total,
        float(values.mean()),
        float(magnitude.mean()),
        float(np.sqrt(np.mean(values**2))),
        float(values[worst]),
        names[worst],
        low,
        high,
    )


def interval(values) -> tuple[float, float]:
    """Where the mean of a sample lies with 95 % confidence, by resampling it; the same for the same values."""
    values = np.asarray(values, dtype=float)
    rng = np.random.default_rng(SEED)
    blocks = max(1, 10**6 // len(values))  # rows at a time, so that large sets take little memory
    means = [
        values[rng.integers(len(values), size=(min(blocks, RESAMPLES - k), len(values)))].mean(axis=1)
        for k in range(0, RESAMPLES, blocks)
    ]
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)


def wtmad2(errors: Sequence[float], weights: Sequence[float | None]) -> float | None:
    """Mean of weight times absolute error [kcal/mol]; None where a reaction has no weight.

    With weights 56.84 / (mean absolute reference energy of the subset) this is WTMAD-2, eq. 2 of L. Goerigk et al.,
    Phys. Chem. Chem. Phys. 19, 32184 (2017), doi:10.1039/C7CP04913G.
    """
    if not len(errors) or any(weight is None for weight in weights):
        return None
    return float(np.mean(np.abs(np.asarray(errors)) * np.asarray(weights, dtype=float)))


def wtmad1(means: Sequence[float], references: Sequence[float | None]) -> float | None:
    """Mean over subsets of their mean absolute errors, times 10 for small and 0.1 for large reference energies, eq. 1.

    means: mean absolute errors.   references: mean absolute reference energies; None where one is not known.
    """
    if not len(means) or any(reference is None for reference in references):
        return None
    known = np.asarray(references, dtype=float)
    return float(np.mean(np.where(known < SMALL, 10.0, np.where(known > LARGE, 0.1, 1.0)) * np.asarray(means)))


OUTLIERS = 5
"""Reactions that tables list as outliers for each functional."""

ALL = "all"


@dataclass(frozen=True)
class ReactionError:
    """A reaction with a functional: energy and error [kcal/mol], None where a molecule has none, for the `reason`."""

    reaction: Reaction
    energy: float | None
    error: float | None
    reason: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(ShownAsText):
    """Errors of functionals on a set; `print` shows the tables.

    functionals: names.   computed: (functional, molecule) -> Computed.   settings: words -> what was used.
    """

    benchmark_set: BenchmarkSet
    functionals: tuple[str, ...]
    computed: Mapping[tuple[str, str], Computed]
    settings: Mapping[str, str]

    # ------------------------------------------------------------------------------------------------ numbers

    def errors(self, xc: str) -> list[ReactionError]:
        """Every reaction of the set with one of the functionals."""
        if xc not in self.functionals:
            raise InputError(f"{xc!r} was not computed; there are {', '.join(self.functionals)}.")
        return [self._error(xc, reaction) for reaction in self.benchmark_set.reactions]

    def _error(self, xc, reaction):
        parts = [(name, coefficient, self.computed[xc, name]) for name, coefficient in reaction.stoichiometry]
        for name, _, one in parts:
            if one.energy is None:
                return ReactionError(reaction, None, None, f"{name}: {one.error}")
        energy = HARTREE_IN_KCAL * sum(coefficient * one.energy for _, coefficient, one in parts)
        return ReactionError(reaction, energy, energy - reaction.reference)

    def known(self, xc: str) -> list[tuple[Reaction, float]]:
        """The reactions that have an energy, with their errors [kcal/mol]."""
        return [(one.reaction, one.error) for one in self.errors(xc) if one.error is not None]

    @property
    def subsets(self) -> list[str]:
        """Names of the subsets, in the order of the set."""
        return list(dict.fromkeys(reaction.subset for reaction in self.benchmark_set.reactions))

    @property
    def classes(self) -> dict[str, list[str]]:
        """Classes with their subsets, those of more than one subset."""
        found: dict[str, list[str]] = {}
        for name in self.subsets:
            known = self.benchmark_set.subsets.get(name)
            if known is not None and known.kind:
                found.setdefault(known.kind, []).append(name)
        return {kind: names for kind, names in found.items() if len(names) > 1}

    def statistics(self, xc: str, *subsets: str) -> Statistics | None:
        """Statistics of a functional on some subsets, on all without; None where nothing was computed."""
        within = lambda reaction: not subsets or reaction.subset in subsets
        there = [(reaction, error) for reaction, error in self.known(xc) if within(reaction)]
        names = [f"{reaction.subset}/{reaction.name}" for reaction, _ in there]
        total = sum(map(within, self.benchmark_set.reactions))
        return statistics_of([error for _, error in there], names, total)

    def weighted(self, xc: str) -> dict[str, float]:
        """WTMAD-1 and WTMAD-2 [kcal/mol] of a set that defines them, over the reactions that were computed."""
        if self.benchmark_set.weighting != "WTMAD-2":
            return {}
        there = self.known(xc)
        means, references = [], []
        for name in self.subsets:
            errors = [abs(error) for reaction, error in there if reaction.subset == name]
            known = self.benchmark_set.subsets.get(name)
            if errors:
                means.append(float(np.mean(errors)))
                references.append(None if known is None else known.mean_reference)
        second = wtmad2([error for _, error in there], [reaction.weight for reaction, _ in there])
        found = {"WTMAD-1": wtmad1(means, references), "WTMAD-2": second}
        return {name: value for name, value in found.items() if value is not None}

    def weighted_rows(self) -> list[tuple[str, list[float | None]]]:
        """The weighted means that any functional has: name and value for each functional, None where one has none."""
        found = [self.weighted(xc) for xc in self.functionals]
        return [
            (name, [one.get(name) for one in found]) for name in dict.fromkeys(name for one in found for name in one)
        ]

    def weighted_interval(self, xc: str) -> tuple[float, float] | None:
        """Where WTMAD-2 lies with 95 % confidence, if these reactions are a sample of many."""
        if "WTMAD-2" not in self.weighted(xc):
            return None
        return interval([abs(error) * (reaction.weight or 0.0) for reaction, error in self.known(xc)])

    def published(self) -> dict[str, dict[str, float]]:
        """functional -> subset -> mean absolute error that others found [kcal/mol], on the same reactions or as stated.

        Only functionals that are known for every subset have the entry `all`.
        """
        found: dict[str, dict[str, float]] = {}
        pooled: dict[str, list[float]] = {}
        for name in self.subsets:
            reactions = [reaction for reaction in self.benchmark_set.reactions if reaction.subset == name]
            for xc in sorted({xc for reaction in reactions for xc in reaction.published}):
                errors = [abs(r.published[xc] - r.reference) for r in reactions if xc in r.published]
                if len(errors) == len(reactions):
                    found.setdefault(xc, {})[name] = float(np.mean(errors))
                    pooled.setdefault(xc, []).extend(errors)
            known = self.benchmark_set.subsets.get(name)
            for xc, value in (known.published if known is not None else {}).items():
                found.setdefault(xc, {}).setdefault(name, value)
        for xc, errors in pooled.items():
            if len(errors) == len(self.benchmark_set.reactions):
                found[xc][ALL] = float(np.mean(errors))
        return found

    def outliers(self, xc: str, count: int = OUTLIERS) -> list[tuple[Reaction, float]]:
        """The reactions of largest error, with it."""
        return sorted(self.known(xc), key=lambda pair: -abs(pair[1]))[:count]

    def missing(self) -> list[tuple[str, str, str]]:
        """(functional, reaction, reason) of what has no energy; those that a check of the set left out have ''."""
        names = [(xc, one) for xc in self.functionals for one in self.errors(xc) if one.error is None]
        found = [(xc, f"{one.reaction.subset}/{one.reaction.name}", one.reason) for xc, one in names]
        return [("", name, reason) for name, reason in self.benchmark_set.left_out] + found

    @property
    def failed(self) -> bool:
        """Whether a molecule of a reaction has no energy, for another reason than that the set was wrong."""
        return any(xc for xc, _, _ in self.missing())

    def remarks(self) -> list[tuple[str, str, str]]:
        """(functional, molecule, what was remarkable)."""
        return [(xc, name, text) for (xc, name), one in self.computed.items() for text in one.remarks]

    def seconds(self, xc: str) -> float:
        """Wall time of all its calculations, each molecule counted once for each name it has."""
        return sum(one.seconds for (name, _), one in self.computed.items() if name == xc)

    # ------------------------------------------------------------------------------------------------- output

    def rows(self) -> list[dict]:
        """A row for each functional with each subset, class and the whole, as the CSV file has them."""
        kinds = {name: self._kind(name) for name in self.subsets}
        groups: list[tuple[str, str, tuple[str, ...]]] = [(name, kinds[name], (name,)) for name in self.subsets]
        groups += [(f"class: {kind}", kind, tuple(names)) for kind, names in self.classes.items()]
        groups += [(ALL, "", ())]
        published = self.published()
        rows = []
        for xc in self.functionals:
            for label, kind, names in groups:
                found = self.statistics(xc, *names)
                row = {"functional": xc, "set": label, "class": kind}
                numbers = asdict(found) if found is not None else {"n": 0}
                weighted = self.weighted(xc) if label == ALL else {}
                rows.append(row | numbers | weighted | {"published_mae": published.get(xc, {}).get(label)})
        return rows

    def _kind(self, name):
        known = self.benchmark_set.subsets.get(name)
        return known.kind if known is not None else ""

    def document(self) -> dict:
        """Everything, for JSON."""
        return {
            "schema_name": "dftfd_benchmark_verdict",
            "schema_version": 1,
            "set": {
                "name": self.benchmark_set.name,
                "source": self.benchmark_set.source,
                "n_reactions": len(self.benchmark_set.reactions),
                "n_molecules": len(self.benchmark_set.species),
            },
            "settings": dict(self.settings),
            "unit": "kcal/mol",
            "interval": "95 % of resampled means",
            "table": self.rows(),
            "weighted": [{"name": name, "values": list(values)} for name, values in self.weighted_rows()],
            "published_mean_absolute_errors": self.published(),
            "reactions": [self._reaction_row(xc, one) for xc in self.functionals for one in self.errors(xc)],
            "energies": [
                {"functional": xc, "molecule": name} | {key: x for key, x in asdict(one).items() if key != "document"}
                for (xc, name), one in self.computed.items()
            ],
            "missing": [dict(zip(("functional", "reaction", "reason"), row, strict=True)) for row in self.missing()],
            "notes": list(self.benchmark_set.notes),
        }

    def _reaction_row(self, xc, one):
        reaction = one.reaction
        return {
            "functional": xc,
            "set": reaction.subset,
            "reaction": reaction.name,
            "stoichiometry": dict(reaction.stoichiometry),
            "reference": reaction.reference,
            "computed": one.energy,
            "error": one.error,
            "weight": reaction.weight,
            "reason": one.reason,
        }

    def csv(self) -> str:
        """The table of errors; numbers in kcal/mol."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        return csv_table(names, ([row.get(name, "") for name in names] for row in rows))

    def latex(self) -> str:
        """A table of mean absolute errors, subsets by functionals, with the packages that LaTeX has."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (1 + len(self.functionals))}}}", r"\hline"]
        lines.append(" & ".join(["", "$n$", *map(in_latex, self.functionals)]) + r" \\ \hline")
        for label in [*self.subsets, ALL]:
            found = [self.statistics(xc, *(() if label == ALL else (label,))) for xc in self.functionals]
            values = ["--" if one is None else f"{one.mean_absolute:.2f}" for one in found]
            counts = {one.n if one is not None else 0 for one in found}
            lines.append(" & ".join([in_latex(label), "/".join(map(str, sorted(counts))), *values]) + r" \\")
        for name, means in self.weighted_rows():
            numbers = ["--" if value is None else f"{value:.2f}" for value in means]
            lines.append(" & ".join([in_latex(name), "", *numbers]) + r" \\")
        words = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return "\n".join(
            [one_line(f"% mean absolute errors [kcal/mol]; {words}", 10_000), *lines, r"\hline", r"\end{tabular}", ""]
        )

    def write(self, path, ending: str | None = None) -> None:
        """Write a file in the format of its ending, or the one given: .csv (the table), .json (all), .tex or .html."""
        path = Path(as_path.checked("path", path))
        texts = {".csv": self.csv, ".json": self._json, ".tex": self.latex, ".html": self.html}
        ending = path.suffix.lower() if ending is None else ending
        if ending not in texts:
            raise InputError(f"{path.name!r}: the ending names the format, one of {', '.join(texts)}.")
        write_text(path, texts[ending]())

    def _json(self):
        return json.dumps(self.document(), indent=1, allow_nan=False) + "\n"

    def __str__(self):
        parts = _head(self), _side_by_side(self), _published(self), _in_full(self), _gaps(self)
        return "\n".join(line for part in parts for line in part)

    def html(self) -> str:
        """One page that needs nothing else: tables, errors as pictures, outliers with their molecules to turn."""
        return page_of(self)


LISTED = 10
"""Reactions without energy, and remarks, that are listed one by one."""


def _head(verdict):
    found = verdict.benchmark_set
    words = ", ".join(f"{name} {value}" for name, value in verdict.settings.items())
    yield f"{found.name}: {found.title}" if found.title else found.name
    yield f"{len(found.reactions)} reactions of {len(found.species)} molecules; {words}"
    yield "energies in kcal/mol; errors are computed less reference; brackets: 95 % of resampled means"


def _side_by_side(verdict):
    labels: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in verdict.subsets]
    labels += [(kind, tuple(names)) for kind, names in verdict.classes.items()]
    labels = [*labels, ("all", ())] if len(verdict.subsets) > 1 else labels
    rows = []
    for label, names in labels:
        found = [verdict.statistics(xc, *names) for xc in verdict.functionals]
        total = next((one.total for one in found if one is not None), 0)
        values = ["-" if one is None else _with_interval(one) for one in found]
        rows.append([label, str(total), *values])
    for name, values in verdict.weighted_rows():
        pairs = zip(values, verdict.functionals, strict=True)
        rows.append([name, "", *("-" if v is None else f"{v:.2f}{_interval_of(verdict, name, xc)}" for v, xc in pairs)])
    return ["", *_table(["mean absolute error", "n", *verdict.functionals], rows)]


def _interval_of(verdict, name, xc):
    found = verdict.weighted_interval(xc) if name == "WTMAD-2" else None
    return f" [{found[0]:.2f}, {found[1]:.2f}]" if found else ""


def _with_interval(one):
    text = f"{one.mean_absolute:.2f} [{one.low:.2f}, {one.high:.2f}]"
    return text if one.n == one.total else f"{text} of {one.n}"


def _published(verdict):
    known = verdict.published()
    if not known:
        return []
    names = sorted(known, key=lambda xc: (xc not in verdict.functionals, xc))
    rows = [
        [label, *(f"{known[xc][label]:.2f}" if label in known[xc] else "-" for xc in names)]
        for label in [*verdict.subsets, "all"]
        if any(label in known[xc] for xc in names)
    ]
    return ["", *_table(["published, same reactions", *names], rows)]


def _in_full(verdict):
    for xc in verdict.functionals:
        rows = []
        for label, names in [*((name, (name,)) for name in verdict.subsets), ("all", ())]:
            one = verdict.statistics(xc, *names)
            if one is not None:
                numbers = (one.mean, one.mean_absolute, one.root_mean_square, one.largest)
                rows.append([label, f"{one.n}/{one.total}", *(f"{value:.2f}" for value in numbers), one.worst])
        yield ""
        yield from _table([xc, "n", "mean", "mean abs", "rms", "largest", "of"], rows)
        worst = ", ".join(f"{one.subset}/{one.name} {error:+.1f}" for one, error in verdict.outliers(xc))
        yield f"outliers: {worst}"


def _gaps(verdict):
    missing, remarks = verdict.missing(), verdict.remarks()
    without = [f"  {name}{f' with {xc}' if xc else ''}: {reason}" for xc, name, reason in missing]
    to_check = [f"  {name} with {xc}: {text}" for xc, name, text in remarks]
    notes = [f"note: {note}" for note in verdict.benchmark_set.notes]
    for head, lines in (
        (f"without energy: {len(missing)}", without),
        (f"to check: {len(remarks)}", to_check),
        ("", notes),
    ):
        if lines:
            yield from ("", *filter(None, [head]), *lines[:LISTED])
            yield from [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []


def _table(head, rows):
    """Lines with columns as wide as they need; the first to the left, the last too where it holds words."""
    table = [head, *rows]
    widths = [max(len(row[k]) for row in table) for k in range(len(head))]
    for row in table:
        cells = [row[0].ljust(widths[0])] + [
            text.ljust(width) if head[k + 1] == "of" else text.rjust(width)
            for k, (text, width) in enumerate(zip(row[1:], widths[1:], strict=True))
        ]
        yield "  ".join(cells).rstrip()
