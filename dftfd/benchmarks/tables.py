"""A verdict in plain text: functionals side by side, each of them in full, outliers, and what is missing."""

LISTED = 10
"""Reactions without energy, and remarks, that are listed one by one."""


def text_of(verdict) -> str:
    """The tables of a Verdict."""
    return "\n".join(
        [*_head(verdict), *_side_by_side(verdict), *_published(verdict), *_in_full(verdict), *_gaps(verdict)]
    )


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
    missing, remarks, notes = verdict.missing(), verdict.remarks(), verdict.benchmark_set.notes
    if missing:
        yield ""
        yield f"without energy: {len(missing)}"
        yield from (f"  {name}{f' with {xc}' if xc else ''}: {reason}" for xc, name, reason in missing[:LISTED])
        yield from _more(missing)
    if remarks:
        yield ""
        yield f"to be looked at: {len(remarks)}"
        yield from (f"  {name} with {xc}: {text}" for xc, name, text in remarks[:LISTED])
        yield from _more(remarks)
    if notes:
        yield ""
        yield from (f"note: {note}" for note in notes[:LISTED])
        yield from _more(notes)


def _more(entries):
    return [f"  and {len(entries) - LISTED} more"] if len(entries) > LISTED else []


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
