"""What libxc's C code adds to its formulas, for every functional: functionals/libxc_parameters.json.

    python data/libxc_formulas/make_parameters.py LIBXC_SOURCE [NAME ...]      with names: these rows alone anew

LIBXC_SOURCE: source tree of the libxc that PySCF brings along (7.0.0). Its files say which formula belongs to which
name, and how the structure of its parameters is declared; the numbers, thresholds, weights of mixtures and fractions of
exact exchange are read from memory after xc_func_init. They are libxc's (https://libxc.gitlab.io, MPL-2.0).
"""

import ctypes
import functools
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.functionals.maple_kernel import MapleKernel, read_kernel
from dftfd.functionals.maple_program import UnknownName
from dftfd.interop import libxc

OUT = Path(__file__).parents[2] / "functionals" / "libxc_parameters.json"
KINDS = {0: "x", 1: "c", 2: "xc", 3: "k"}
DEFAULTS = {"zeta_threshold": np.finfo(float).eps, "tau_threshold": 1e-20}
DEFAULTS |= {"cam_omega": 0.0, "cam_alpha": 0.0, "cam_beta": 0.0}
NAMED = re.compile(r"\bxc_func_info_(?P<name>\w+)\s*=\s*\{")
WORK = re.compile(r'#include\s+"maple2c/(?P<path>\w+/\w+)\.c"')
STRUCT = re.compile(r"typedef\s+struct\s*\w*\s*\{(?P<body>[^}]*)\}\s*(?P<name>\w+_params)\s*;", re.DOTALL)
DEFINED = re.compile(r"^#define\s+(?P<name>\w+)\s+(?P<value>\d+)\b", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TYPES = {"double": ctypes.c_double, "int": ctypes.c_int}
COUNTS = 74
"""Whole numbers in xc_dimensions: lengths of libxc's arrays."""


class InMemory(ctypes.Structure):
    """xc_func_type of libxc 7 (src/xc.h)."""


InMemory._fields_ = [
    ("info", ctypes.c_void_p),
    ("n_spin", ctypes.c_int),
    ("n_parts", ctypes.c_int),
    ("parts", ctypes.POINTER(ctypes.POINTER(InMemory))),
    ("weights", ctypes.POINTER(ctypes.c_double)),
    *((name, ctypes.c_double) for name in ("cam_omega", "cam_alpha", "cam_beta", "nlc_b", "nlc_C")),
    ("counts", ctypes.c_int * COUNTS),
    ("ext_params", ctypes.c_void_p),
    ("params", ctypes.c_void_p),
    *((name, ctypes.c_double) for name in ("dens_threshold", "zeta_threshold", "sigma_threshold", "tau_threshold")),
]


class Tree:
    """A source tree of libxc: which formula belongs to which name, and how parameters stand in memory."""

    def __init__(self, path):
        self.path = Path(path)
        read = lambda path: COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
        self.sources = {p.name: read(p) for p in sorted((self.path / "src").glob("*.[ch]"))}
        self.files, self.reads, self.cancelled = {}, {}, {}
        for text in self.sources.values():
            work = WORK.search(text)
            if work is not None:
                self.files.update(dict.fromkeys((match["name"] for match in NAMED.finditer(text)), work["path"]))

    @functools.lru_cache(None)  # noqa: B019
    def kernel(self, file) -> MapleKernel:
        folder, _, name = file.partition("/")
        return read_kernel(self.path / "maple" / folder / f"{name}.mpl", (self.path / "maple",))

    def layout(self, struct, name):
        """The structure of a functional's parameters, from the C file that defines the functional, else any."""
        texts = [t for t in self.sources.values() if re.search(rf"\bxc_func_info_{name}\b", t)]
        for text in [*texts, *self.sources.values()]:
            for match in STRUCT.finditer(text):
                if match["name"] == struct:
                    return layout(match["body"], {m["name"]: int(m["value"]) for m in DEFINED.finditer(text)})
        raise KeyError(f"no structure {struct} for {name}")

    def parameters(self, name, kernel, address) -> dict[str, Any]:
        """The parameters that stand in memory, by name."""
        if kernel.struct is None or not address:
            return {}
        structure = self.layout(kernel.struct, name)
        values = structure.from_address(address)
        read = lambda v: [read(x) for x in v] if isinstance(v, ctypes.Array) else v
        given = {field: read(getattr(values, field)) for field, _ in structure._fields_}
        return {key + "_" if key == "lambda" else key: value for key, value in given.items()}


def layout(body, defined):
    """A C structure of numbers and arrays of numbers, "double a, b[5]; int k;"."""
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, _, names = declaration.removeprefix("const ").partition(" ")
        for name in names.split(","):
            plain, *sizes = re.findall(r"\w+", name.replace("*", ""))
            type_ = ctypes.c_void_p if "*" in kind + name else TYPES[kind]
            for size in reversed(sizes):
                type_ = type_ * (int(size) if size.isdigit() else defined[size])
            fields.append((plain, type_))
    return type("Parameters", (ctypes.Structure,), {"_fields_": fields})


def about(functional):
    """(name, number, kind) of a functional in memory."""
    info = functional.info
    number = libxc._c_function("xc_func_info_get_number", ctypes.c_int, ctypes.c_void_p)(info)
    kind = libxc._c_function("xc_func_info_get_kind", ctypes.c_int, ctypes.c_void_p)(info)
    name = libxc._c_function("xc_functional_get_name", ctypes.c_char_p, ctypes.c_int)(number).decode()
    return name, number, KINDS[kind]


def primitive(tree, functional):
    """What a formula takes, without defaults and without what it does not look at."""
    name, _, _ = about(functional)
    expected = functional.dens_threshold ** (4 / 3)
    if abs(functional.sigma_threshold / expected - 1) > 1e-10:
        sys.exit(f"{name}: thresholds do not stand where they are looked for; is this libxc 7?")
    kernel = tree.kernel(tree.files[name])
    params = tree.parameters(name, kernel, functional.params)
    reads = read_by(tree, tree.files[name], kernel, params)
    looked_at = {r.removeprefix("params_a_") for r in reads if r.startswith("params_a_")}
    looked_at |= {re.sub(r"_\d+_$", "", r) for r in looked_at} | {r + "_" for r in looked_at}
    record = {"name": name, "kernel": tree.files[name], "reads": [r for r in reads if not r.startswith("params_a_")]}
    record |= {key: getattr(functional, key) for key in ("dens_threshold", "sigma_threshold")}
    record |= {key: getattr(functional, key) for key, d in DEFAULTS.items() if getattr(functional, key) != d}
    whole = {"knots", "cx", "cc"} if "case21" in name else set()
    params = {key: value for key, value in params.items() if key in looked_at | whole}
    return record | ({"params": params} if params else {})


def read_by(tree, file, kernel, params):
    """What the formula looks at. A parameter that libxc's structure lacks cancels in its text; it is 1 here."""
    while file not in tree.reads:
        try:
            tree.reads[file] = kernel.with_reads(in_tuples(params)).reads
        except UnknownName as error:
            missing = re.search(r"params_a_(\w+)", str(error))
            if missing is None or missing[1] in params:
                raise
            params[missing[1]] = 1.0
            tree.cancelled.setdefault(file, {})[missing[1]] = 1.0
    params.update(tree.cancelled.get(file, {}))
    return tree.reads[file]


def in_tuples(params):
    of = lambda v: tuple(map(of, v)) if isinstance(v, list) else float(v)
    return {key: of(value) for key, value in params.items()}


def terms(tree, functional):
    """Pairs [weight, primitive]; one with "tau" has a kinetic energy functional in the place of tau."""
    name, _, _ = about(functional)
    parts = [functional.parts[k].contents for k in range(functional.n_parts)] if functional.parts else []
    if parts and functional.weights:
        return [[functional.weights[k] * v, p] for k, part in enumerate(parts) for v, p in terms(tree, part)]
    if name in tree.files:
        return [[1.0, primitive(tree, functional)]]
    energy, kinetic = (primitive(tree, part) for part in parts)
    return [[1.0, {**energy, "name": name, "tau": kinetic}]]


def main(path, *wanted):
    tree, failed = Tree(path), {}
    table = json.loads(OUT.read_text()) if wanted else {}
    for name in wanted or libxc.names():
        with libxc._initialised(name, 2) as found:
            functional = InMemory.from_address(found.pointer)
            _, number, kind = about(functional)
            entry = {"number": number, "kind": kind}
            entry["exact_exchange"] = [functional.cam_omega, functional.cam_alpha, functional.cam_beta]
            entry["nonlocal"] = [functional.nlc_b, functional.nlc_C]
            try:
                table[name] = {**entry, "terms": terms(tree, functional)}
            except Exception as error:  # noqa: BLE001  each reason is recorded
                failed[name] = f"{type(error).__name__}: {error}"[:200]
                print(name, failed[name], flush=True)
    rows = [f'"{name}": {json.dumps(entry, separators=(",", ":"))}' for name, entry in sorted(table.items())]
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{len(table)} functionals, {len(failed)} failed, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
