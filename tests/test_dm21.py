"""DM21: made-up weights against the network in NumPy with PySCF's ingredients, the authors' against their energies."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest
from pyscf.dft import gen_grid, numint, radi
from scipy.special import expit

import dftfd
from dftfd.errors import DftfdError, FileError, FunctionalError, InputError, MissingDependencyError, UnsupportedError
from dftfd.functionals import dm21 as module
from dftfd.functionals.definition import from_definition
from dftfd.libcint.mole import to_pyscf
from dftfd.runtime.progress import Progress

HEH = "He 0 0 0.1; H 0 0.2 0.9"
OPTIONS = {"density_fit": False, "grid_level": 1, "conv_tol": 1e-10}
WEIGHTS = os.environ.get("DFTFD_DM21")
"""The folder `checkpoints` of the authors' program, if it is here."""


def write(folder: Path, kind="DM21", seed=0) -> np.ndarray:
    """Weights of a tame network, in the layout of the authors' files; gives them back as the file has them."""
    rng = np.random.default_rng(seed)
    block = [rng.normal(scale=0.1, size=256), 1 + rng.normal(scale=0.1, size=256), rng.normal(scale=0.1, size=256)]
    blocks = [np.concatenate([*block, rng.normal(scale=0.05, size=256 * 256)]) for _ in range(6)]
    ends = [rng.normal(scale=0.05, size=n) for n in (3, 256 * 3, 256, 11 * 256)]
    flat = np.concatenate([*blocks, *ends]).astype("<f4")
    path = folder / kind / "variables" / "variables.data-00000-of-00001"
    path.parent.mkdir(parents=True)
    path.write_bytes(flat.tobytes())
    return flat.astype(float)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """(functional, the weights of another)."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write(folder)
    return dftfd.dm21(checkpoints=folder), write(folder, "DM21m", seed=1)


def in_numpy(w, features):
    """Shares (point, 3) of local, exact and long-range exact exchange, from features (point, 11)."""
    take = iter(np.split(w, np.cumsum([256, 256, 256, 65536] * 6 + [3, 768, 256])))
    blocks = [tuple(next(take) for _ in range(4)) for _ in range(6)]
    b_out, w_out, b_in, w_in = take
    x = np.tanh(np.log(np.abs(features) + 1e-4 + 1e-9) @ w_in.reshape(11, 256) + b_in)
    for beta, gamma, bias, weights in blocks:
        y = x @ weights.reshape(256, 256) + bias + x
        z = gamma * (y - y.mean(axis=1, keepdims=True)) / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5) + beta
        x = np.where(z > 0, z, np.expm1(np.minimum(z, 0)))
    return 2 * expit((x @ w_out.reshape(256, 3) + b_out) / 2)


def ingredients(molecule, P, level):
    """weights, features (point, 11), and local, exact, long-range exact exchange (point, 3), by PySCF."""
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    mole, points = to_pyscf(molecule), np.asarray(grid.points)
    ao, A = numint.eval_ao(mole, points, deriv=1), mole.intor("int1e_grids", grids=points)
    with mole.with_range_coulomb(0.4):
        A_lr = mole.intor("int1e_grids", grids=points)
    rho = [numint.eval_rho(mole, ao, P_s, xctype="MGGA", with_lapl=False) for P_s in P]
    n, slope, tau = [r[0] for r in rho], [r[1:4] for r in rho], [r[4] for r in rho]
    exact = [[-0.5 * np.einsum("pm,pmn,pn->p", ao[0] @ P_s, B, ao[0] @ P_s) for B in (A, A_lr)] for P_s in P]
    squares = [np.sum(g**2, axis=0) for g in (slope[0] + slope[1], *slope)]
    local = sum(-1.5 * (3 / (4 * np.pi)) ** (1 / 3) * n_s ** (4 / 3) for n_s in n)
    energies = local, exact[0][0] + exact[1][0], exact[0][1] + exact[1][1]
    return np.asarray(grid.weights), np.stack([*n, *squares, *tau, *exact[0], *exact[1]], axis=1), np.stack(energies, 1)


@pytest.mark.slow  # half a minute
def test_the_energy_is_that_of_the_network_in_numpy_with_pyscf_s_ingredients(network):
    functional, _ = network
    molecule = dftfd.molecule(HEH, spin=1, basis="6-31g")
    P = dftfd.run_scf(molecule, "hf", density_fit=False).density_matrix
    result = dftfd.run_scf(molecule, functional, **OPTIONS)
    found = result.calculation.energy(Progress()).evaluate(P).energies["xc"]
    weights, features, energies = ingredients(molecule, P, 1)
    w = functional.parameters["network"]
    assert found == pytest.approx(np.einsum("p,pi,pi->", weights, in_numpy(w, features), energies), abs=1e-9)
    assert result.forces().sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_the_matrix_is_the_derivative_of_the_energy(network):
    """By five-point differences with a short step: the network's second derivatives jump (ELU)."""
    functional, _ = network
    molecule = dftfd.molecule("He 0 0 0; H 0 0 0.9", charge=1, basis="6-31g")
    P = dftfd.run_scf(molecule, "hf", density_fit=False).density_matrix
    result = dftfd.run_scf(molecule, functional, **OPTIONS)
    energy, dP, h = result.calculation.energy(Progress()), P - result.density_matrix, 1e-3
    E = {k: sum(energy.evaluate(P + k * h * dP).energies.values()) for k in (-2, -1, 1, 2)}
    slope = (8 * (E[1] - E[-1]) - (E[2] - E[-2])) / (12 * h)
    assert np.sum(energy.evaluate(P).F * dP) == pytest.approx(slope, abs=1e-8)


@pytest.mark.slow  # 3 s; test_a_result_with_a_grid_functional_is_read_again of test_grid_functionals is quick
def test_a_definition_names_weights_by_a_fingerprint(network):
    """It does not hold 401,667 numbers, and is made again from the weights that are here alone."""
    functional, other = network
    assert len(str(functional.definition)) < 300
    assert from_definition(functional.definition, "dm21") == functional
    with pytest.raises(FunctionalError, match="other parameters here"):
        from_definition(functional.with_parameters(network=other).definition, "dm21")


def test_nothing_is_derived_by_the_weights(network):
    _, weights = network
    with pytest.raises(UnsupportedError, match="DM21's weights"):
        jax.grad(lambda w: module.shares(w, *np.ones(11)).sum())(weights)


@pytest.mark.slow
def test_a_result_names_its_weights_and_refuses_others(network, tmp_path):
    functional, other = network
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), functional, **OPTIONS)
    with pytest.raises(UnsupportedError):
        result.parameter_gradient()
    result.save(tmp_path / "he.h5")
    assert dftfd.load_result(tmp_path / "he.h5").functional == functional
    with pytest.warns(dftfd.errors.InputWarning):
        dftfd.register(functional.with_parameters(network=other), "dm21", spin_symmetric=False)
    with pytest.raises(DftfdError, match="other terms or parameters"):
        dftfd.load_result(tmp_path / "he.h5")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read"),
        (b"", "has 0 bytes; 1606668 expected"),
        (np.full(401667, np.nan, "<f4").tobytes(), "not finite"),
    ],
)
def test_a_file_that_holds_no_weights_is_refused(tmp_path, content, said):
    path = tmp_path / "DM21" / "variables" / "variables.data-00000-of-00001"
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=said):
        dftfd.dm21(checkpoints=tmp_path)


def test_without_the_authors_program_names_say_what_is_missing(monkeypatch):
    monkeypatch.setattr(module, "PACKAGE", "no_such_package_at_all")
    for asked in (dftfd.dm21, lambda: dftfd.get_functional("dm21mu")):
        with pytest.raises(MissingDependencyError, match="checkpoints"):
            asked()
    with pytest.raises(InputError, match="'DM21', 'DM21m', 'DM21mc', 'DM21mu'"):
        dftfd.dm21("DM22")


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS, reason="the variable DFTFD_DM21 names no folder of DM21's checkpoints")
@pytest.mark.parametrize(("atoms", "spin", "energy"), [("Ne 0 0 0;", 0, -126.898521), ("C 0 0 0;", 2, -37.34184876)])
def test_energies_of_the_authors_program(monkeypatch, atoms, spin, energy):
    """Those of its tests (neural_numint_test.py of google-deepmind/deepmind-research), on PySCF's grid of its time."""
    molecule = dftfd.molecule(atoms, basis="sto-3g", spin=spin)
    monkeypatch.setattr(radi, "ATOM_SPECIFIC_TREUTLER_GRIDS", False)
    grid = gen_grid.Grids(to_pyscf(molecule))
    grid.level = 3
    grid.build()
    result = dftfd.run_scf(molecule, dftfd.dm21(checkpoints=WEIGHTS), grid=(grid.coords, grid.weights))
    assert result.converged and result.energy == pytest.approx(energy, abs=5e-6)
