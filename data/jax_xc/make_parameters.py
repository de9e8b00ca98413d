"""Parameters of libxc 6.0's functionals, as jax-xc 0.0.11 carries them, written to functionals/jax_xc_parameters.json.

Run it where NumPy is older than 2 (python -m venv v; v/bin/pip install "numpy<2"; v/bin/pip install --no-deps
jax-xc==0.0.11; v/bin/python data/jax_xc/make_parameters.py). Under NumPy 2 jax-xc reads its arrays with a wrong stride,
without an error: each repeats its first number, in 255 of 627 functionals. So the table is made once, and shipped.

The numbers are libxc's (https://libxc.gitlab.io, MPL-2.0), read from the copy of libxc 6.0 in the jax-xc wheel. jax-xc
itself is imported in parts: its __init__ needs packages that play no role here.
"""

import ctypes
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[2] / "functionals" / "jax_xc_parameters.json"
KINDS = {0: "x", 1: "c", 2: "xc", 3: "k"}
# Kernels that have a kernel of their own and use others beside it; get_p leaves their name empty.
OWN_KERNEL_WITH_OTHERS = "mgga_c_m06l"
DEFAULTS = {"zeta_threshold": np.finfo(float).eps, "tau_threshold": 1e-20, "params": {}}
DEFAULTS |= {"cam_omega": 0.0, "cam_alpha": 0.0, "cam_beta": 0.0}


def load():
    """(module with LibXCFunctional and names, get_p) without jax_xc's __init__."""
    root = importlib.util.find_spec("jax_xc").submodule_search_locations[0]
    package = types.ModuleType("jax_xc_parts")
    package.__path__ = [root]
    sys.modules["jax_xc_parts"] = package
    return importlib.import_module("jax_xc_parts.libxc"), importlib.import_module("jax_xc_parts.libxc.libxc").get_p


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def read(library, get_p, name):
    """The record of a functional with two spins; weights of a mixture from libxc's own structure."""
    f = library.LibXCFunctional(name, 2)
    record = plain(get_p(ctypes.cast(f.xc_func, ctypes.c_void_p).value))
    contents, info = f.xc_func.contents, f.xc_func_info.contents
    count = library.core.xc_num_aux_funcs(f.xc_func)
    record["mix"] = [contents.mix_coef[i] for i in range(count)] if count and contents.mix_coef else None
    return record, {"number": int(info.number), "kind": KINDS[int(info.kind)]}


def primitive(record):
    """What a kernel takes, without defaults."""
    entry = {"name": record["name"], "kernel": record["maple_name"], "dens_threshold": record["dens_threshold"]}
    entry["sigma_threshold"] = record["sigma_threshold"]
    for key, default in DEFAULTS.items():
        if record[key] != default:
            entry[key] = record[key]
    if "params" in entry:  # a keyword of Python is no name of a parameter
        entry["params"] = {k + "_" if k == "lambda" else k: v for k, v in entry["params"].items()}
    return entry


def terms(record, of_name):
    """Pairs [weight, primitive]; a pair of primitives is (energy, kinetic energy density put in the place of tau)."""
    parts = record.get("func_aux")
    if not parts:
        return [[1.0, primitive(record)]]
    if record["mix"] is not None:
        return [
            [w * v, p]
            for w, part in zip(record["mix"], parts, strict=True)
            for v, p in terms(of_name(part["name"], part), of_name)
        ]
    if any(part["name"].startswith("mgga_k") for part in parts):
        energy, kinetic = map(primitive, parts)
        return [[1.0, {**energy, "name": record["name"], "tau": kinetic}]]
    return [[1.0, {**primitive(record), "kernel": OWN_KERNEL_WITH_OTHERS}]]


def main():
    if int(np.__version__.split(".")[0]) > 1:
        sys.exit(f"NumPy {np.__version__} is installed; jax-xc reads its arrays right with NumPy 1 only.")
    library, get_p = load()
    table = {}
    for name in library.util.xc_available_functional_names():
        record, about = read(library, get_p, name)

        def of_name(part, given):
            """A part's own record, with its weights where it is a mixture itself; given parameters otherwise."""
            return read(library, get_p, part)[0] if given.get("func_aux") else {**given, "mix": None}

        about["exact_exchange"] = [record[key] for key in ("cam_omega", "cam_alpha", "cam_beta")]
        about["nonlocal"] = [record["nlc_b"], record["nlc_C"]]
        table[name] = {**about, "terms": terms(record, of_name)}
    rows = [f'"{name}": {json.dumps(entry, separators=(",", ":"))}' for name, entry in sorted(table.items())]
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{len(table)} functionals, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
