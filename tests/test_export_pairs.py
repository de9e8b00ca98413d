"""Exported double integrals in C against PySCF's VV10 and our own sums on a molecule's points; PyTorch's module."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from pyscf import dft, gto

import dftfd
from dftfd.errors import UnsupportedError
from dftfd.xc.channels import channel_count
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel
from tests.exported_code import COMPILER, WARNINGS, run_test, shared_library

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: install gcc or clang")


def density_of_water(n_spin, order):
    """(points (point, 3), weights, density (spin, channel, point), what PySCF takes) of a guess."""
    mole = gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", basis="6-31g*", verbose=0)
    grid = dft.gen_grid.Grids(mole)
    grid.level = 0
    grid.build()
    P = dft.RKS(mole).get_init_guess(key="minao")
    ao = dft.numint.eval_ao(mole, grid.coords, deriv=1)
    n = dft.numint.eval_rho(mole, ao, P, xctype="GGA")
    shares = np.linspace(0.6, 0.4, n_spin) if n_spin == 2 else np.ones(1)
    density = shares[:, None, None] * n[: channel_count(order, False)]
    return grid.coords, grid.weights, density, (mole, grid, P)


class PairCode:
    """The compiled driver in this process."""

    def __init__(self, folder, name):
        library = shared_library(folder / "nonlocal", *WARNINGS, "-O2")
        self._call = getattr(ctypes.CDLL(str(library)), f"{name}_nonlocal")
        self._call.argtypes = [ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 5]

    def __call__(self, points, weights, density):
        """(energy, potential (spin, channel, point))."""
        rows = np.ascontiguousarray(density.transpose(2, 0, 1))
        potential, energy = np.empty_like(rows), np.empty(1)
        given = [np.ascontiguousarray(a).ctypes.data for a in (points, weights, rows)]
        assert self._call(len(density), len(weights), *given, energy.ctypes.data, potential.ctypes.data) == 0
        return energy[0], potential.transpose(1, 2, 0)


def require_right(folder, name, n_spin):
    functional = dftfd.get_functional(name).nonlocal_part
    kernel = NonlocalXCKernel(functional, n_spin)
    points, weights, density, client = density_of_water(n_spin, kernel.order)
    code = PairCode(folder, name)
    energy, potential = code(points, weights, density)
    expected, slopes = kernel(points, weights, density)
    assert energy == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(potential, slopes, rtol=1e-11, atol=1e-13 * np.abs(slopes).max())
    return energy, client, code


def test_vv10_in_c_is_pyscfs(tmp_path):
    """Energy by PySCF's hand-written double sum on the same grid; the potential by our own kernel. Three spins and
    missing weights are refused."""
    dftfd.export("vv10", tmp_path)
    energy, (mole, grid, P), code = require_right(tmp_path, "vv10", 1)
    assert energy == pytest.approx(dft.numint.NumInt().nr_nlc_vxc(mole, grid, "vv10", P)[1], abs=1e-12)
    one = np.ones(8).ctypes.data
    assert code._call(3, 1, one, one, one, one, one) == 1
    assert code._call(1, 1, one, None, one, one, one) == 2
    assert code._call(1, 0, one, one, one, one, one) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vv10", "rvv10", "vdw_df_nl", "hartree"])
def test_other_double_integrals(name, tmp_path):
    """Both spins; tables of vdW-DF are arrays in the code; sanitizers find nothing in it."""
    dftfd.export(name, tmp_path)
    assert " 0 wrong" in run_test(tmp_path / "nonlocal", *WARNINGS)
    assert " 0 wrong" in run_test(tmp_path / "nonlocal", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-O1")
    for n_spin in (1, 2):
        require_right(tmp_path, name, n_spin)


@pytest.mark.slow  # 2 s; test_vv10_in_c_is_pyscfs and test_export.py are quick
def test_a_functional_with_both_parts_has_both_folders(tmp_path, caplog):
    """Exchange of the uniform gas with VV10: semilocal code, and a double integral. Two of these are refused."""
    names = {p.relative_to(tmp_path).as_posix() for p in dftfd.export("lda_x + vv10", tmp_path, order=0)}
    assert {"nonlocal/lda_x_vv10_nonlocal.c", "lda_x_vv10.c", "pytorch/lda_x_vv10.py"} <= names
    with pytest.raises(UnsupportedError, match="2 double integrals"):
        dftfd.export("vv10 + rvv10", tmp_path / "two")
    dftfd.export("lda_x + vv10 + rvv10", tmp_path / "three", order=0)
    assert "2 double integrals" in caplog.text


TORCH = """
import importlib.util, torch
spec = importlib.util.spec_from_file_location("exported", {module!r})
exported = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exported)
energy = exported.load({library!r})
torch.manual_seed(1)
rho = torch.rand(5, 2, dtype=torch.float64) + 0.1
sigma = torch.rand(5, 3, dtype=torch.float64) * 0.02 + torch.tensor([0.1, 0.0, 0.1])
for x in (rho, sigma):
    x.requires_grad_()
assert torch.autograd.gradcheck(energy, (rho, sigma), rtol=1e-6, atol=1e-8)
assert torch.autograd.gradgradcheck(energy, (rho, sigma), rtol=1e-5, atol=1e-7)
n = rho[:, :1].detach()
assert torch.allclose(energy(n, 4 * sigma[:, :1]), energy(torch.cat([n / 2] * 2, 1), sigma[:, :1].repeat(1, 3)))
print("right")
"""


def test_pytorch_differentiates_exported_code(tmp_path):
    """Slopes and second derivatives against finite differences by PyTorch itself, in the Python that DFTFD_TORCH_PYTHON
    names or in this one; equal spins against two."""
    python = os.environ.get("DFTFD_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip("PyTorch is not installed: pip install torch, or name a Python that has it, DFTFD_TORCH_PYTHON")
    dftfd.export("gga_x_pbe", tmp_path, order=2)
    library = shared_library(tmp_path)
    script = TORCH.format(module=str(tmp_path / "pytorch/gga_x_pbe.py"), library=str(library))
    found = subprocess.run([python, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip() == "right", found.stderr
