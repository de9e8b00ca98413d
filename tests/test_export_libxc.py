"""Exported functionals behind libxc's interface: PySCF, Psi4 and programs linked with libxc 7 or Debian's libxc 5 use
them unchanged; inside libxc's own tree they pass its check."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyscf.lib
import pytest
from pyscf import dft

import dftfd
from dftfd.interop.pyscf import numint
from dftfd.xc.pointwise import pointwise_kernel
from tests.exported_code import COMPILER, WARNINGS, exported_to, own_functional
from tests.libxc_client import BASIS, LEVEL, WATER, molecule, observed, prepared
from tests.verification.libxc_tree import build, checked, copy_of, give_references, put_in, without_what_is_missing


@dataclass(frozen=True)
class Libxc:
    """Where a libxc is, with headers."""

    include: Path
    lib: Path

    @property
    def is_there(self) -> bool:
        return COMPILER is not None and (self.include / "xc.h").exists()

    @property
    def flags(self) -> list[str]:
        return ["-Wl,--no-as-needed", f"-L{self.lib}", "-lxc", f"-Wl,-rpath,{self.lib}", "-ldl", "-lm"]


PYSCFS = Libxc(*(Path(pyscf.lib.__file__).parent / "deps" / part for part in ("include", "lib")))
DEBIANS = Libxc(Path("/usr/include"), Path("/usr/lib/x86_64-linux-gnu"))
needs_libxc = pytest.mark.skipif(
    not PYSCFS.is_there, reason="a C compiler and PySCF's libxc with headers needed: pip install pyscf"
)
needs_debians_libxc = pytest.mark.skipif(
    not DEBIANS.is_there, reason="a C compiler and the distribution's libxc needed: apt-get install libxc-dev"
)


def preloadable(folder: Path, libxc: Libxc = PYSCFS, library: Path | None = None) -> Path:
    """The folder's code behind libxc's interface, as a library that loads libxc."""
    sources = [p for p in (*sorted(folder.glob("*.c")), *folder.glob("libxc/*.c")) if not p.name.endswith("_test.c")]
    library = library or folder / "before_libxc.so"
    flags = [*WARNINGS, "-std=c99", "-O1", "-shared", "-fPIC", f"-I{folder}", f"-I{libxc.include}"]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(library), *libxc.flags], check=True)
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
    if (xc_func_init(p, number, XC_POLARIZED) != 0 || xc_func_init(other, 101, XC_POLARIZED) != 0) return 1;
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


def compiled_client(folder: Path, libxc: Libxc) -> Path:
    (folder / "client.c").write_text(CLIENT)
    program = folder / "client"
    places = [f"-I{libxc.include}", str(folder / "client.c"), "-o", str(program), *libxc.flags]
    subprocess.run([COMPILER, *places], check=True)
    return program


@pytest.fixture(scope="module")
def pbe(tmp_path_factory):
    """The folder of exported PBE exchange, to second order."""
    folder = tmp_path_factory.mktemp("pbe")
    exported_to(folder, "gga_x_pbe", 2)
    return folder


@pytest.mark.parametrize(
    "libxc",
    [pytest.param(PYSCFS, marks=needs_libxc), pytest.param(DEBIANS, marks=[needs_debians_libxc, pytest.mark.slow])],
    ids=["PySCF's", "Debian's"],
)  # fmt: skip
def test_a_program_linked_with_libxc(libxc, pbe, tmp_path):
    """By name and number; parameters by name, their defaults; second derivatives; libxc's own PBE beside it. After
    kappa was set it is revPBE, whose energy our kernel gives."""
    program = compiled_client(tmp_path, libxc)
    environment = os.environ | {"LD_PRELOAD": str(preloadable(pbe, libxc, tmp_path / "before.so"))}
    printed = subprocess.run([str(program)], env=environment, check=True, capture_output=True, text=True).stdout
    lines = printed.split("\n")
    assert lines[:3] == ["dftfd_gga_x_pbe 2", "kappa 0.80400000000000005", "mu 0.21951497276451709"]
    ours, theirs, revised = (np.array(line.split(), dtype=float) for line in lines[3:6])
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)
    x = np.array([[0.3], [0.2], [0.1], [0.02], [0.05], [0], [0], [0], [0]])
    energy = pointwise_kernel(dftfd.get_functional("gga_x_pbe", kappa=1.245), 2)(x, 0)[0][0, 0]
    assert revised[0] == pytest.approx(energy / 0.5, rel=1e-14) and abs(revised[0] - ours[0]) > 1e-5


@pytest.mark.slow  # 1 s; test_a_program_linked_with_libxc is quick
@needs_libxc
def test_two_exports_of_one_name_are_not_mixed(pbe, tmp_path):
    """Neither answers, and one line says why: their functions have the same names in C, too."""
    program = compiled_client(tmp_path, PYSCFS)
    both = [preloadable(pbe, PYSCFS, tmp_path / name) for name in ("one.so", "two.so")]
    environment = os.environ | {"LD_PRELOAD": ":".join(map(str, both))}
    found = subprocess.run([str(program)], env=environment, capture_output=True, text=True)
    assert found.returncode == 1
    assert "two libraries answer for the number" in found.stderr and "under another name" in found.stderr


PSI4 = shutil.which("psi4")
PSI4_PLACE = "/usr/lib/x86_64-linux-gnu"


@needs_debians_libxc
@pytest.mark.slow
@pytest.mark.skipif(PSI4 is None, reason="Psi4 is not installed: apt-get install psi4")
@pytest.mark.parametrize("name", ["own hybrid", "r2scan", "b3lyp"])
def test_psi4_computes_with_an_exported_functional(name, tmp_path):
    """SCF of water and its cation in Psi4 with the exported functional against dftfd, on the points and weights that
    Psi4 took: 1e-8 hartree. Psi4's own PBE beside it is what it is without the library."""
    own = (own_functional() + 0.2 * dftfd.exact_exchange).named(name)
    functional = own if name == "own hybrid" else dftfd.get_functional(name)
    exported = exported_to(tmp_path, functional, 1)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": PSI4_PLACE, "PSI_SCRATCH": str(tmp_path)}
    client = ["/usr/bin/python3", str(Path(__file__).parent / "psi4_client.py")]
    ask = lambda *names, **more: subprocess.run(
        [*client, *names], cwd=tmp_path, env=environment | more, check=True, capture_output=True
    )
    ask("PBE")
    without = json.loads((tmp_path / "found.json").read_text())
    ask(f"dftfd_{exported.name}", "PBE", LD_PRELOAD=str(preloadable(tmp_path, DEBIANS)))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found.pop("PBE") == pytest.approx(without["PBE"], abs=1e-10)
    grid = np.load(tmp_path / "grid.npy")
    for charge, energy in enumerate(found["own"]):
        mole = dftfd.molecule(WATER, basis=BASIS, charge=charge, spin=charge)
        run = dftfd.run_scf(mole, functional, grid=(grid[:3].T.copy(), grid[3].copy()), density_fit=False)
        assert energy == pytest.approx(run.energy, abs=1e-8)


TREE = os.environ.get("DFTFD_LIBXC_SOURCE", "")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(
    not (Path(TREE) / "src/maple2c/gga_exc").is_dir() or shutil.which("cmake") is None,
    reason="libxc's source tree with its generated C needed, DFTFD_LIBXC_SOURCE, and cmake",
)
def test_libxc_built_with_exported_functionals_passes_its_own_check(tmp_path):
    """Registered by libxc's script and compiled in a copy of its tree; the reference values are libxc's of the same
    names, the tolerances libxc's."""
    copy = copy_of(Path(TREE), tmp_path)
    without_what_is_missing(copy)
    inside = {
        name: put_in(copy, dftfd.get_functional(name)) for name in ("gga_x_pbe", "mgga_c_tpss", "hyb_gga_xc_b3lyp")
    }
    build(copy, 2)
    for theirs, ours in inside.items():
        files = give_references(copy, theirs, ours)
        found = checked(copy, ours)
        assert found == {"OK": files, "failing": [], "exit": 0} and files > 13
