"""A verdict as one HTML page that needs no network: tables, the errors as pictures, outliers with their molecules."""

from collections.abc import Iterator
from html import escape

import numpy as np

from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.results.scene import molecule_scene, scene_figure, scene_script
from dftfd.results.web_page import web_page
from dftfd.system.geometry import parse_geometry

WIDTH, ROW, LABELS = 860, 26, 190
"""Of the picture of errors: width, height of a row, and where the errors begin [pixels]."""

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
OUTLIERS = 8

_STYLE = """
canvas { border: 1px solid var(--grid); cursor: grab } details { margin: .5rem 0 }
.mol { display: inline-block; margin: .4rem; text-align: center }
"""


def page_of(verdict) -> str:
    shown: dict[str, dict] = {}
    parts = [
        *_head(verdict),
        "<h2>Mean absolute errors</h2>",
        _side_by_side(verdict),
        *_published(verdict),
        "<h2>Every reaction</h2>",
        *_picture(verdict),
        "<h2>Outliers</h2>",
        *_outliers(verdict, shown),
        *_gaps(verdict),
        "<details><summary>All tables as they are printed</summary>",
        f'<pre tabindex="0">{escape(str(verdict))}</pre></details>',
    ]
    return web_page(verdict.benchmark_set.name, "\n".join(parts), _STYLE, scene_script(shown))


def _head(verdict):
    found = verdict.benchmark_set
    yield f"<h1>{escape(found.title or found.name)}</h1>"
    words = ", ".join(f"{name} {value}" for name, value in verdict.settings.items())
    yield f"<p>{len(found.reactions)} reactions of {len(found.species)} molecules; {escape(words)}.</p>"
    if found.source:
        yield f"<p><small>Source: {escape(found.source)}</small></p>"


def _table(head, rows) -> str:
    cells = lambda row, tag: "".join(f"<{tag}>{escape(str(word))}</{tag}>" for word in row)
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _side_by_side(verdict) -> str:
    groups = [(name, (name,)) for name in verdict.subsets]
    groups += [(kind, tuple(names)) for kind, names in verdict.classes.items()] + [("all", ())]
    rows = []
    for label, names in groups:
        found = [verdict.statistics(xc, *names) for xc in verdict.functionals]
        total = next((one.total for one in found if one is not None), 0)
        rows.append([label, total, *("-" if one is None else _words(one) for one in found)])
    for name, values in verdict.weighted_rows():
        rows.append([name, "", *("-" if value is None else f"{value:.2f}" for value in values)])
    return _table(["kcal/mol", "n", *verdict.functionals], rows)


def _words(one):
    words = f"{one.mean_absolute:.2f} [{one.low:.2f}, {one.high:.2f}], mean {one.mean:+.2f}"
    return words if one.n == one.total else f"{words}; {one.n} of {one.total}"


def _published(verdict):
    if known := verdict.published():
        names = sorted(known)
        rows = [
            [label, *(f"{known[xc][label]:.2f}" if label in known[xc] else "-" for xc in names)]
            for label in [*verdict.subsets, "all"]
        ]
        yield "<p>Mean absolute errors that others published for the same reactions:</p>"
        yield _table(["kcal/mol", *names], rows)


def _picture(verdict) -> Iterator[str]:
    """A row for each subset and functional, a point for each reaction at its error."""
    errors = {xc: verdict.known(xc) for xc in verdict.functionals}
    reach = max((abs(error) for found in errors.values() for _, error in found), default=1.0) or 1.0
    middle, scale = (LABELS + WIDTH) / 2, (WIDTH - LABELS - 50) / 2 / reach
    rows = [(name, k) for name in verdict.subsets for k in range(len(verdict.functionals))]
    height = ROW * len(rows) + 40
    yield f'<svg width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12" role="img">'
    for mark in _marks(reach):
        x = middle + scale * mark
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 35}" stroke="{"#888" if mark == 0 else "#ddd"}"/>'
        yield f'<text x="{x:.1f}" y="{height - 20}" text-anchor="middle">{f"{mark:+g}" if mark else "0"}</text>'
    for row, (name, k) in enumerate(rows):
        xc, y = verdict.functionals[k], ROW * row + ROW / 2
        yield f'<text x="0" y="{y + 4}">{escape(f"{name} {xc}")}</text>'
        for one, error in errors[xc]:
            if one.subset == name:
                words = escape(f"{one.name}: {error:+.2f} of {one.reference:.2f} kcal/mol")
                x = middle + scale * error
                colour = COLOURS[k % len(COLOURS)]
                point = f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}" fill-opacity="0.6">'
                yield f"{point}<title>{words}</title></circle>"
    words = "error [kcal/mol], computed less reference"
    yield f'<text x="{middle}" y="{height - 4}" text-anchor="middle">{words}</text></svg>'


def _marks(reach: float) -> list[float]:
    """Round numbers from -reach to reach, two to four on either side of zero."""
    power = 10.0 ** np.floor(np.log10(reach))
    step = next(s for s in (power * m for m in (5, 2, 1, 0.5, 0.2)) if reach >= 2 * s)
    n = int(reach / step)
    return [float(f"{k * step:.12g}") for k in range(-n, n + 1)]


def _outliers(verdict, shown) -> Iterator[str]:
    for xc in verdict.functionals:
        yield f"<h3>{escape(xc)}</h3>"
        for reaction, error in verdict.outliers(xc, OUTLIERS):
            head = f"{reaction.subset}/{reaction.name}: {error:+.2f} kcal/mol (reference {reaction.reference:.2f})"
            yield f"<details><summary>{escape(head)}</summary>"
            for name, coefficient in reaction.stoichiometry:
                if name not in shown:
                    shown[name] = _scene(name, verdict.benchmark_set.species[name])
                label = escape(f"{coefficient:+g} {name}")
                yield f'<div class="mol">{scene_figure(name)}<br>{label}</div>'
            yield _components(verdict, xc, reaction)
            yield "</details>"


def _scene(name, species):
    geometry = parse_geometry(species.atoms)
    symbols = [atom.symbol for atom in geometry.names]
    return molecule_scene(symbols, np.asarray(geometry.coordinates) / BOHR_IN_ANGSTROM, name)


def _components(verdict, xc, reaction) -> str:
    """What each part of the energy adds to the reaction, and the states that were found."""
    parts = [(name, c, verdict.computed[xc, name]) for name, c in reaction.stoichiometry]
    names = list(dict.fromkeys(name for _, _, one in parts for name in one.components))
    rows = [
        [f"{c:+g} {label}", *(f"{one.components.get(name, 0.0):.6f}" for name in names), f"{one.energy:.6f}"]
        for label, c, one in parts
    ]
    sums = [sum(c * one.components.get(name, 0.0) for _, c, one in parts) for name in names]
    rows.append(["reaction", *(f"{value:.6f}" for value in sums), f"{sum(c * one.energy for _, c, one in parts):.6f}"])
    return _table(["hartree", *names, "total"], rows)


def _gaps(verdict) -> Iterator[str]:
    if missing := verdict.missing():
        yield f"<h2>Without energy</h2>{_table(['functional', 'reaction', 'reason'], missing)}"
    if remarks := verdict.remarks():
        yield f"<h2>To check</h2>{_table(['functional', 'molecule', 'what'], remarks)}"
    if notes := verdict.benchmark_set.notes:
        yield f"<h2>Notes on the set</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
