"""Exported functionals behind libxc's interface: PySCF, unchanged, computes with them; Fortran calls them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyscf.lib
import pytest
from pyscf import dft

import dftfd
from dftfd.interop.pyscf import numint
from dftfd.xc.pointwise import pointwise_kernel
from tests.exported_code import COMPILER, WARNINGS
from tests.libxc_client import BASIS, LEVEL, WATER, molecule, observed, prepared
from tests.test_export import own_functional

LIBXC = Path(pyscf.lib.__file__).parent / "deps"
needs_libxc = pytest.mark.skipif(
    COMPILER is None or not (LIBXC / "include/xc.h").exists(),
    reason="a C compiler and PySCF's libxc with headers needed",
)


def preloadable(folder: Path) -> Path:
    """The folder's code behind libxc's interface, as a library that loads PySCF's libxc."""
    sources = [p for p in (*sorted(folder.glob("*.c")), *folder.glob("libxc/*.c")) if not p.name.endswith("_test.c")]
    library = folder / "before_libxc.so"
    flags = [*WARNINGS, "-std=c99", "-O1", "-shared", "-fPIC", f"-I{folder}", f"-I{LIBXC / 'include'}"]
    linked = [f"-L{LIBXC / 'lib'}", "-Wl,--no-as-needed", "-lxc", f"-Wl,-rpath,{LIBXC / 'lib'}", "-ldl", "-lm"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(library), *linked], check=True)
    return library


def number_in(folder: Path) -> str:
    """The number under which clients of libxc find the functional."""
    (source,) = folder.glob("libxc/*.c")
    return re.search(r"number (\d+), in xc_func_init", source.read_text())[1]


@needs_libxc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["own hybrid", "r2scan", "camb3lyp"])
def test_pyscf_computes_with_an_exported_functional(name, tmp_path):
    """SCF of one and of two spins, gradients, TDDFT: 1e-8 hartree from dftfd's energies, and from PySCF with dftfd's
    own kernels in place of libxc; libxc's PBE stays what it is."""
    own = (own_functional() + 0.2 * dftfd.exact_exchange).named(name)
    functional = own if name == "own hybrid" else dftfd.get_functional(name)
    dftfd.export(functional, tmp_path, order=2)
    environment = os.environ | {"LD_PRELOAD": str(preloadable(tmp_path)), "OMP_NUM_THREADS": "1"}
    client = [sys.executable, str(Path(__file__).parent / "libxc_client.py"), number_in(tmp_path)]
    found = json.loads(subprocess.run(client, env=environment, check=True, capture_output=True, text=True).stdout)

    closed, cation = dft.RKS(molecule()), dft.UKS(molecule(1))
    for mean_field in (closed, cation):
        mean_field._numint = numint(functional)
    expected = observed(prepared(closed), prepared(cation))
    assert found["converged"] and expected["converged"]
    for key in ("energy", "energy of the cation", "gradient", "excitations"):
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-8, err_msg=key)
    assert found["pbe"] == pytest.approx(dft.RKS(molecule(), xc="pbe").kernel(), abs=1e-9)
    run = dftfd.run_scf(dftfd.molecule(WATER, basis=BASIS), functional, grid_level=LEVEL, density_fit=False)
    assert found["energy"] == pytest.approx(run.energy, abs=1e-8)


CLIENT = r"""
#include <stdio.h>
#include <string.h>
#include <xc.h>

int main(void)
{
    const double rho[] = {0.3, 0.2}, sigma[] = {0.1, 0.02, 0.05};
    double zk, vrho[2], vsigma[3], v2rho2[3], v2rhosigma[6], v2sigma2[6];
    const int number = xc_functional_get_number("DFTFD_gga_x_pbe");
    xc_func_type *p = xc_func_alloc(), *other = xc_func_alloc();
    if (xc_func_init(p, number, XC_POLARIZED) != 0 || xc_func_init(other, XC_GGA_X_PBE, XC_POLARIZED) != 0) return 1;
    const xc_func_info_type *info = xc_func_get_info(p);
    printf("%s %d\n", xc_func_info_get_name(info), xc_family_from_id(number, NULL, NULL));
    for (int k = 0; k < xc_func_info_get_n_ext_params(info); ++k)
        printf("%s %.17g\n", xc_func_info_get_ext_params_name(info, k),
            xc_func_info_get_ext_params_default_value(info, k));
    xc_func_type *both[] = {p, other, p};
    for (int k = 0; k < 3; ++k) {
        xc_gga_exc_vxc_fxc(both[k], 1, rho, sigma, &zk, vrho, vsigma, v2rho2, v2rhosigma, v2sigma2);
        printf("%.17g %.17g %.17g %.17g %.17g %.17g\n", zk, vrho[0], vsigma[1], v2rho2[0], v2rhosigma[5], v2sigma2[0]);
        xc_func_set_ext_params_name(p, "kappa", 1.245);
    }
    xc_func_end(p);
    xc_func_end(other);
    xc_func_free(p);
    xc_func_free(other);
    return 0;
}
"""


@needs_libxc
def test_a_program_linked_with_libxc(tmp_path):
    """By name and number; parameters by name, their defaults; second derivatives; libxc's own PBE beside it. After
    kappa was set it is revPBE, whose energy our kernel gives."""
    dftfd.export("gga_x_pbe", tmp_path, order=2)
    (tmp_path / "client").mkdir()
    (tmp_path / "client/client.c").write_text(CLIENT)
    program, folder = tmp_path / "client/client", [f"-I{LIBXC / 'include'}", f"-L{LIBXC / 'lib'}"]
    linked = ["-lxc", f"-Wl,-rpath,{LIBXC / 'lib'}", "-lm"]
    subprocess.run([COMPILER, str(tmp_path / "client/client.c"), *folder, *linked, "-o", str(program)], check=True)
    environment = os.environ | {"LD_PRELOAD": str(preloadable(tmp_path))}
    lines = subprocess.run([str(program)], env=environment, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    assert lines[:3] == ["dftfd_gga_x_pbe 2", "kappa 0.80400000000000005", "mu 0.21951497276451709"]
    ours, theirs, revised = (np.array(line.split(), dtype=float) for line in lines[3:6])
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)
    x = np.array([[0.3], [0.2], [0.1], [0.02], [0.05], [0], [0], [0], [0]])
    energy = pointwise_kernel(dftfd.get_functional("gga_x_pbe", kappa=1.245), 2)(x, 0)[0][0, 0]
    assert revised[0] == pytest.approx(energy / 0.5, rel=1e-14) and abs(revised[0] - ours[0]) > 1e-5


FORTRAN = """
program client
  use gga_x_pbe
  implicit none
  real(c_double), target :: rho(2, 1) = reshape([0.3d0, 0.2d0], [2, 1]), zk(1), vrho(2, 1)
  real(c_double), target :: sigma(3, 1) = reshape([0.1d0, 0.02d0, 0.05d0], [3, 1])
  type(gga_x_pbe_parameters) :: parameters
  type(gga_x_pbe_results) :: results
  results%zk = c_loc(zk)
  results%vrho = c_loc(vrho)
  if (gga_x_pbe_evaluate(2_c_int, 1_c_size_t, c_loc(rho), c_loc(sigma), c_null_ptr, c_null_ptr, &
      parameters, results) /= 0) stop 1
  print *, zk, vrho
end program
"""


@pytest.mark.skipif(shutil.which("gfortran") is None or COMPILER is None, reason="there is no gfortran")
def test_fortran_calls_it(tmp_path):
    """Energy and slopes of one point, with default parameters, as our kernel has them."""
    dftfd.export("gga_x_pbe", tmp_path, order=1)
    (tmp_path / "fortran/client.f90").write_text(FORTRAN)
    sources = [tmp_path / f"gga_x_pbe{part}.c" for part in ("", "_order0", "_order1")]
    sources += [tmp_path / "fortran/gga_x_pbe.f90", tmp_path / "fortran/client.f90"]
    flags = ["-Wall", "-Werror", f"-J{tmp_path}", f"-I{tmp_path}"]
    subprocess.run(["gfortran", *flags, *map(str, sources), "-o", str(tmp_path / "client"), "-lm"], check=True)
    printed = subprocess.run([str(tmp_path / "client")], check=True, capture_output=True, text=True).stdout
    x = np.array([[0.3], [0.2], [0.1], [0.02], [0.05], [0], [0], [0], [0]])
    energy, slopes = pointwise_kernel(dftfd.get_functional("gga_x_pbe"), 2)(x, 1)
    expected = [energy[0, 0] / 0.5, *slopes[:2, 0]]
    np.testing.assert_allclose(np.array(printed.split(), dtype=float), expected, rtol=1e-14)
