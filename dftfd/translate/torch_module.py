"""PyTorch's view of exported C code: a module of Python that calls the compiled code through ctypes."""

from dftfd.translate.c_files import SPINS, Exported, provenance
from dftfd.translate.c_text import substituted
from dftfd.xc.channels import FAMILIES, MEMBERS, VARIABLES


def torch_module(exported: Exported) -> str:
    """The text of a module with one function, differentiable by PyTorch as often as derivatives were exported."""
    tables = {n: {s: c for s, c in exported.components(n).items() if 0 < exported.slots[s] <= 2} for n in SPINS}
    values = {
        "ABOUT": "".join(f"# {line}\n".replace("# \n", "#\n") for line in provenance(exported).splitlines()),
        "NAME": exported.name,
        "ORDER": min(exported.order, 2),
        "SLOTS": repr(list(exported.slots)),
        "MEMBERS": repr({n: {f: list(MEMBERS[n][f]) for f in FAMILIES} for n in SPINS}),
        "COUNTS": repr({n: len(VARIABLES[n]) for n in SPINS}),
        "TABLES": "".join(f"    {n}: {{\n{_rows(rows)}    }},\n" for n, rows in tables.items()),
    }
    return substituted(_TEXT, values)


def _rows(table) -> str:
    return "".join(f"        {slot!r}: {columns!r},\n" for slot, columns in table.items())


_TEXT = '''\
@ABOUT@
"""@NAME@ in PyTorch, computed by the C code of this folder. Compile it, then load it:

    cc -O3 -fno-math-errno -shared -fPIC @NAME@.c @NAME@_order*.c -lm -o @NAME@.so

    energy = load("@NAME@.so")
    e = energy(rho, sigma)   # hartree/bohr^3, (point,); tensors (point, component) of float64, as in @NAME@.h
    e.sum().backward()
"""

import ctypes

import numpy as np
import torch
from torch.autograd.function import once_differentiable

ORDER = @ORDER@
"""How often the energy may be differentiated."""

_SLOTS = @SLOTS@
_MEMBERS = @MEMBERS@
_COUNTS = @COUNTS@
_TABLES = {
@TABLES@}
"""By spins: results, and the variables that each column is a derivative by."""


class _Code:
    def __init__(self, path):
        self._evaluate = ctypes.CDLL(str(path)).@NAME@_evaluate
        self._evaluate.argtypes = [ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 6]

    def derivatives(self, x, order):
        """Energy (point,), slopes (point, variable) or second derivatives (point, variable, variable)."""
        given, n_spin = x.detach().cpu().numpy(), 1 if x.shape[1] == _COUNTS[1] else 2
        arrays = [np.ascontiguousarray(given[:, columns]) for columns in _MEMBERS[n_spin].values()]
        columns = {slot: c for slot, c in _TABLES[n_spin].items() if len(c[0]) == order} if order else {"e": [()]}
        found = {slot: np.empty((len(given), len(c))) for slot, c in columns.items()}
        table = (ctypes.c_void_p * len(_SLOTS))(*(found[s].ctypes.data if s in found else None for s in _SLOTS))
        places = [a.ctypes.data for a in arrays]
        if self._evaluate(n_spin, len(given), *places, None, ctypes.addressof(table)) != 0:
            raise ValueError("the code refuses these arrays.")
        total = np.zeros((len(given), *[given.shape[1]] * order))
        for slot, of_slot in columns.items():
            for k, by in enumerate(of_slot):
                total[(slice(None), *by)] = total[(slice(None), *reversed(by))] = found[slot][:, k]
        return torch.from_numpy(total).to(x.device)


class _Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, code):
        ctx.save_for_backward(x)
        ctx.code = code
        return code.derivatives(x, 0)

    @staticmethod
    def backward(ctx, g):
        return g[:, None] * _Slopes.apply(ctx.saved_tensors[0], ctx.code), None


class _Slopes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, code):
        if ORDER < 1:
            raise ValueError("this functional was exported without derivatives.")
        ctx.save_for_backward(x)
        ctx.code = code
        return code.derivatives(x, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        if ORDER < 2:
            raise ValueError("this functional was exported to first order.")
        return torch.einsum("pij,pj->pi", ctx.code.derivatives(ctx.saved_tensors[0], 2), g), None


def load(path):
    """The energy per volume as a function of rho, sigma, lapl and tau, (point, component) as in @NAME@.h.

    One column of rho for equal spins, two for two; arrays that the functional does not take may be left out.
    """
    code = _Code(path)

    def energy(rho, sigma=None, lapl=None, tau=None):
        members = _MEMBERS[rho.shape[1]].values()
        given = [
            rho.new_zeros(len(rho), len(of_family)) if part is None else part
            for part, of_family in zip((rho, sigma, lapl, tau), members)
        ]
        return _Energy.apply(torch.cat(given, dim=1), code)

    return energy
'''
