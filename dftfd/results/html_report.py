"""A result as one self-contained HTML page: the molecule with its surfaces to turn, numbers, pictures.

Pictures are SVG inside the page, the scene is drawn by the page's own script; nothing is loaded from elsewhere.
"""

import json
from html import escape
from io import StringIO

import numpy as np

from dftfd.errors import MissingDependencyError, UnsupportedError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.response.excitations import draw_spectrum
from dftfd.results.scene import STYLE as SCENE_STYLE
from dftfd.results.scene import result_scene, scene_figure, scene_script
from dftfd.results.summary import outcome, result_rows, title
from dftfd.results.web_page import web_page
from dftfd.xc.density import evaluate_at

BOND_REACH = 2.5  # bohr beyond either atom
LINE_POINTS, PLANE_POINTS = 241, 81
SURFACE = 2e-3
"""Density [bohr^-3] below which one is outside a molecule. R. F. W. Bader et al., J. Am. Chem. Soc. 109, 7968 (1987).
doi:10.1021/ja00260a006"""
LABEL = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
IN_PLANE = 0.5
"""Atoms so near [bohr] to the plane have black names in the picture, the others grey ones."""


def html_report(result, excitations=None, document=None) -> str:
    """The page. Raises MissingDependencyError without matplotlib.   excitations: of this result, for their spectrum.

    document: a Document, what a command prints, of which the page then lacks nothing.
    """
    scene = result_scene(result, excitations)
    pictures = [drawn(draw_convergence, result)]
    if excitations is not None:
        pictures.append(drawn(draw_spectrum, excitations))
    if result.has_properties:
        pictures.append(drawn(_draw_orbitals, result))
        bond = _bond(result.molecule)
        if bond is not None:
            pictures += [drawn(draw, result, bond) for draw in (_draw_line, _draw_plane)]
    body = [
        f"<h1>{escape(title(result))}</h1>",
        f'<p class="{"" if result.converged else "warning"}">{escape(outcome(result))}</p>',
        f"<p>E = {result.energy:.10f} hartree</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in result.notes),
        '<div class="columns">',
        f"<section>{scene_figure('result', scene['fields'], large=True)}</section>",
        f"<section>{_wide(summary_table(result))}<h2>Atoms</h2>{_wide(_atoms_table(result))}</section>",
        *(f"<section>{picture}</section>" for picture in pictures),
        "</div>",
        _wide(_excitations_table(excitations)) if excitations is not None else "",
        document.html("result", *(["excitations"] if excitations is not None else [])) if document is not None else "",
        "<details><summary>Terms and parameters of the functional</summary>"
        f'<pre tabindex="0">{escape(json.dumps(result.settings.definition, indent=1))}</pre></details>',
        f"<p>{escape(', '.join(f'{name} {version}' for name, version in result.settings.versions.items()))}</p>",
    ]
    return web_page(title(result), "\n".join(body), SCENE_STYLE, scene_script({"result": scene}))


def _wide(text: str) -> str:
    """A table that scrolls sideways where it does not fit."""
    return f'<div class="scroll" tabindex="0">{text}</div>'


def summary_table(result) -> str:
    """The rows of the summary as an HTML table, for notebooks too."""
    return table([map(escape, row) for row in result_rows(result)], ("quantity", "energies in hartree"))


def notebook_summary(result) -> str:
    head = "<br>".join([f"<b>{escape(title(result))}</b>", *map(escape, (outcome(result), *result.notes))])
    return f"<div>{head}{summary_table(result)}</div>"


def table(rows, header=()):
    cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
    return "<table>" + (cells(header, "th") if header else "") + "".join(cells(row, "td") for row in rows) + "</table>"


def _atoms_table(result):
    """Positions, and charges and spin populations where the result has them."""
    molecule = result.molecule
    header, columns = ["position [angstrom]", "x", "y", "z"], list((molecule.coordinates * BOHR_IN_ANGSTROM).T)
    if result.has_properties:
        columns += [result.charges(scheme) for scheme in ("mulliken", "loewdin", "meta-loewdin")]
        header += ["charge: Mulliken", "Loewdin", "meta-Loewdin"]
        if len(result.density_matrix) == 2:
            columns.append(result.spin_populations("loewdin"))
            header.append("spin: Loewdin")
    rows = [
        (escape(f"{label} {number}"), *(f"{value:.4f}" for value in values))
        for number, (label, *values) in enumerate(zip(molecule.labels, *columns, strict=True), start=1)
    ]
    return table(rows, header)


def _excitations_table(found):
    header = ("number", "hartree", "eV", "nm", "strength", "rotatory", "character")
    rows = [(*cells, "<br>".join(map(escape, lines))) for *cells, lines in found.rows()]
    return f"<h2>{escape(found.title)}</h2>" + table(rows, header)


def drawn(draw, *arguments):
    """An SVG figure drawn by `draw(axes, ...)`."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("HTML reports need matplotlib: pip install 'dftfd[plots]'.") from error
    with rc_context({"svg.hashsalt": "dftfd", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        draw(figure.subplots(), *arguments)
        stream = StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}</figure>"


def draw_convergence(axes, result):
    cycles = [cycle for cycle in (*result.preliminary, *result.history) if cycle.number > 0]
    if result.preliminary:  # the first row of the whole energy's table is no step, but what it begins with
        cycles.insert(len(result.preliminary), result.history[0])
        axes.axvline(len(result.preliminary) + 0.5, color="grey", label="full accuracy from here")
    numbers = np.arange(1, len(cycles) + 1)
    for name, label in (("energy_change", "energy change"), ("gradient_norm", "orbital gradient")):
        values = np.abs([getattr(cycle, name) for cycle in cycles])
        axes.semilogy(numbers[values > 0], values[values > 0], "o-", markersize=4, label=label)
    axes.axhline(result.settings.conv_tol, color="grey", linestyle=":", label="threshold of the energy")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="step", ylabel="hartree", title="Convergence")
    axes.legend(frameon=False)


def _draw_orbitals(axes, result):
    names = ("",) if len(result.mo_energy) == 1 else ("alpha", "beta")
    if result.method == "ROKS":
        names = ("alpha, beta",)
    shown = [e for pair in result.frontier for e in pair if e is not None]
    low, high = min(shown) - 0.6, max(shown) + 0.4
    occupations = result.mo_occ.sum(axis=0, keepdims=True) if result.method == "ROKS" else result.mo_occ
    for s, _ in enumerate(names):
        for energy, n in zip(result.mo_energy[s], occupations[s], strict=True):
            if low <= energy <= high:
                axes.hlines(energy, s - 0.3, s + 0.3, color="C0" if n > 0 else "C1", linewidth=1.5)
    axes.set(ylim=(low, high), xlim=(-0.8, len(names) - 0.2), ylabel="hartree", title="Orbital energies near the gap")
    axes.set_xticks(range(len(names)), names)
    for colour, label in (("C0", "occupied"), ("C1", "empty")):
        axes.plot([], [], color=colour, label=label)
    _legend_below(axes)


def _bond(molecule):
    """Indices of the first atom and its nearest neighbour among real atoms, heavy ones first; None for one atom."""
    real = [a for a in range(molecule.n_atoms) if not molecule.ghost[a]]
    if len(real) < 2:
        return None
    first = max(real, key=lambda a: (molecule.atomic_numbers[a], -a))
    distance = lambda a: np.linalg.norm(molecule.coordinates[a] - molecule.coordinates[first])
    return first, min((a for a in real if a != first), key=distance)


def _draw_line(axes, result, bond):
    """Density and exchange-correlation potential along the bond."""
    molecule = result.molecule
    a, b = (molecule.coordinates[index] for index in bond)
    length = np.linalg.norm(b - a)
    x = np.linspace(-BOND_REACH, length + BOND_REACH, LINE_POINTS)
    points = a + np.outer(x, (b - a) / length)
    density = np.asarray(evaluate_at(result.density, points)).sum(axis=1)
    axes.semilogy(x, density, color="C0", label="density")
    axes.set(xlabel="distance [bohr]", title=f"Along {_name(molecule, bond)}")
    axes.set_ylabel("density [bohr$^{-3}$]", color="C0")
    try:
        potential = np.asarray(evaluate_at(result.v_xc, points))[:, 0]
    except UnsupportedError:  # grid functionals and local hybrids have none at a point
        return
    other = axes.twinx()
    other.plot(x, potential, color="C3", label="exchange-correlation potential, alpha")
    low, high = np.percentile(potential, (2, 98))  # those of meta-GGAs have poles at the nuclei
    margin = 0.1 * (high - low) or 0.1  # that of Hartree-Fock is zero
    other.set_ylim(low - margin, high + margin)
    other.set_ylabel("potential [hartree]", color="C3")
    _legend_below(axes, other)


def _draw_plane(axes, result, bond):
    """Density and electrostatic potential in the plane of the bond and the atom that is farthest off it."""
    molecule = result.molecule
    centre, X, Y = _plane(molecule, bond)
    u = (molecule.coordinates - centre) @ np.stack([X, Y]).T
    (x0, y0), (x1, y1) = u.min(axis=0) - 3.5, u.max(axis=0) + 3.5
    x, y = np.linspace(x0, x1, PLANE_POINTS), np.linspace(y0, y1, PLANE_POINTS)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    points = centre + grid @ np.stack([X, Y])
    shape = (PLANE_POINTS, PLANE_POINTS)
    density = np.asarray(evaluate_at(result.density, points)).sum(axis=1).reshape(shape)
    potential = np.asarray(evaluate_at(result.electrostatic_potential, points)).reshape(shape)
    levels, colours = _potential_scale(potential[density < SURFACE])
    filled = axes.contourf(x, y, potential, levels=levels, cmap=colours, extend="both")
    axes.figure.colorbar(filled, ax=axes, format="%.3f", label="electrostatic potential [hartree / e]")
    axes.contour(x, y, density, levels=10.0 ** np.arange(-3, 2), colors="black", linewidths=0.7)
    for a, symbol in enumerate(molecule.symbols):
        off = np.linalg.norm(molecule.coordinates[a] - centre - u[a] @ np.stack([X, Y]))
        colour = "black" if off < IN_PLANE else "dimgrey"
        axes.annotate(symbol, u[a], ha="center", va="center", color=colour, bbox=LABEL)
    axes.set(xlabel="bohr", ylabel="bohr", title="Density (lines, 0.001 to 10) and potential", aspect="equal")


def _potential_scale(outside):
    """Levels and colours that tell apart the values outside the molecule; white is zero where it is among them."""
    low, high = np.percentile(outside, (1, 99))
    if low < 0 < high:
        return np.linspace(-1, 1, 21) * max(-low, high), "RdBu"
    return np.linspace(low, high, 21), "viridis"


def _legend_below(axes, *others):
    lines = [line for each in (axes, *others) for line in each.get_lines() if not line.get_label().startswith("_")]
    axes.figure.legend(handles=lines, loc="outside lower center", ncols=2, frameon=False)


def _plane(molecule, bond):
    """A point and two orthonormal directions."""
    a, b = (molecule.coordinates[index] for index in bond)
    X = (b - a) / np.linalg.norm(b - a)
    off = molecule.coordinates - a
    off = off - np.outer(off @ X, X)
    farthest = off[np.argmax(np.linalg.norm(off, axis=1))]
    if np.linalg.norm(farthest) < 1e-3:  # all atoms on one line: any direction that is not along it
        farthest = np.eye(3)[np.argmin(np.abs(X))]
        farthest = farthest - (farthest @ X) * X
    return a, X, farthest / np.linalg.norm(farthest)


def _name(molecule, bond):
    return "-".join(f"{molecule.symbols[index]}{index + 1}" for index in bond)
