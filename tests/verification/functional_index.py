"""What `dftfd list` knows of each functional: family, kind, year, source, ingredients, exact exchange.

    python -m tests.verification.functional_index      writes functionals/index.json

The command answers from that file, without loading JAX; tests/test_listing.py makes rows anew and compares.
"""

import json
import re
from pathlib import Path

import dftfd
from dftfd.autofd.lowering import lower
from dftfd.functionals import catalogue
from dftfd.functionals.densities import EXACT_EXCHANGE, unknown_densities
from dftfd.functionals.registry import _library

FOLDER = Path(dftfd.__file__).parent / "functionals"
INDEX = FOLDER / "index.json"
KINDS = ("x", "c", "xc", "k")
DECORATED = re.compile(r'^@functional\("\w+", doi="(10\.[^"]+)"\)\n(?:@\w+\n)*def [^"]*"""([^"]*)"""', re.M)


def years() -> dict[str, int]:
    """The year of each source, as docstrings give it before the doi; else that of the docstring below a decorator."""
    found: dict[str, int] = {}
    texts = [path.read_text() for path in sorted(FOLDER.glob("*.py"))]
    for text in texts:
        for year, doi in re.findall(r"\((\d{4})\)[^()\n]*\n?\s*doi:(10\.[^\s,;\"]+)", text):
            found.setdefault(doi.rstrip("."), int(year))
    for doi, words in re.findall(DECORATED, "".join(texts)):
        for year in re.findall(r"\((\d{4})\)", words)[:1]:
            found.setdefault(doi, int(year))
    return found


def row_of(name: str, known_years: dict[str, int]) -> dict:
    """The row of one of the library's own functionals."""
    f = dftfd.get_functional(name)
    uses = _ingredients(f)
    letters = {k for _, t in f.terms for k in KINDS if f"_{k}_" in f"_{t.name}_"} or ({"xc"} if f.terms else set())
    family = _family(uses, f.is_nonlocal) if f.terms else "perturbation theory" if f.pt2 else "HF"
    kind = "model potential" if not f.has_energy else _kind(letters, f.exact_exchange)
    if family == "perturbation theory":
        kind = "correlation"
    if family == "nonlocal":
        kind = "Coulomb energy" if name == "hartree" else "correlation"
    return _row(
        family=family,
        kind=kind,
        year=max([known_years[doi] for doi in f.papers or f.dois if doi in known_years], default=None),
        uses=uses,
        exact_exchange=[list(pair) for pair in f.exact_exchange],
        pt2=list(f.pt2),
        nonlocal_correlation=f.is_nonlocal,
        doi=list(f.dois),
    )


def _ingredients(f):
    """What a point has to supply, as calculations find it."""
    semilocal = f.semilocal_part
    if not semilocal.terms:
        return []
    orders = lower(semilocal.energy_density(*unknown_densities())).orders
    names = ["rho", "sigma", "lapl"][: 1 + orders.get("rho", 0)]
    return names + [name for name in ("tau", *EXACT_EXCHANGE) if name in orders]


def _family(uses, is_nonlocal):
    if set(EXACT_EXCHANGE) & set(uses):
        return "local hybrid"
    if {"lapl", "tau"} & set(uses):
        return "meta-GGA"
    return "GGA" if "sigma" in uses else "nonlocal" if is_nonlocal and not uses else "LDA"


def _kind(letters, exact_exchange):
    if letters == {"k"}:
        return "kinetic energy"
    has_x, has_c = bool(letters & {"x", "xc"}) or bool(exact_exchange), bool(letters & {"c", "xc"})
    return "exchange-correlation" if has_x and has_c else "exchange" if has_x else "correlation"


def catalogue_row(name: str, entries: dict) -> dict:
    """The row of a name of libxc's catalogue, by its name and libxc's mixing of exact exchange."""
    words = name.split("_")
    family = {"lda": "LDA", "gga": "GGA", "mgga": "meta-GGA"}[next(w for w in words if w in ("lda", "gga", "mgga"))]
    letter = next(w for w in words if w in KINDS)
    entry = entries[name]
    exchange = catalogue.exact_exchange_of(entry)
    is_model = any(record["kernel"].split("/")[0].endswith("_vxc") for _, record in entry["terms"])
    return _row(
        family=family,
        kind="model potential" if is_model else _kind({letter}, exchange),
        exact_exchange=[list(pair) for pair in exchange],
        nonlocal_correlation=bool(entry["nonlocal"][0]),
    )


def _row(**entries):
    return {key: value for key, value in entries.items() if value}


def index() -> dict:
    """{"own": {name: row}, "libxc": those that jax-xc serves, "libxc_source": those that a tree of libxc adds,
    "libxc_without_source": those of jax-xc that a tree does not serve}; the last with empty rows."""
    known = years()
    own = {name: row_of(name, known) for name in sorted(_library)}
    from_jax_xc = {name: catalogue_row(name, catalogue.table()) for name in catalogue.names()}
    more = [name for name in catalogue.source_names() if name not in from_jax_xc]
    from_source = {name: catalogue_row(name, catalogue.source_table()) for name in more}
    alone: dict[str, dict] = {name: {} for name in from_jax_xc if name not in catalogue.source_names()}
    return {"own": own, "libxc": from_jax_xc, "libxc_source": from_source, "libxc_without_source": alone}


if __name__ == "__main__":
    rows = index()
    lines = [
        f' "{part}": {{\n' + ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in rows[part].items()) + "\n }"
        for part in rows
    ]
    INDEX.write_text("{\n" + ",\n".join(lines) + "\n}\n")
