"""One training step against pyscfad, GradDFT and DQC: value and gradient of a loss in energy and dipole by a network's
numbers.

    OMP_NUM_THREADS=1 python examples/benchmarks/training_step.py [--pyscfad PYTHON] [--graddft PYTHON] [--dqc PYTHON]

Water, PBE with a network of six hidden functions in its exchange (that of derivatives_of_scf.py), the same code of JAX
on all sides but DQC's (training_step_dqc.py). pyscfad differentiates through its cycles, or by the implicit function
theorem (its own solver); GradDFT through 25 or 100 cycles from PBE's density; DQC by the implicit function theorem.
Each way has a process of its own; the first step compiles, the second has other numbers. Processor time of one thread.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
BASIS, GRID = "6-31g", 1
TARGET = (-76.3, (0.0, 0.0, -0.8))


def weights():
    """The network's numbers, written out: releases of JAX draw different ones from the same key."""
    return {
        "a": jnp.array(
            [
                1.0922195870782927,
                0.33192175800707846,
                -0.9018419691831743,
                -1.3781577939448049,
                0.4305257710977576,
                1.6068202017924402,
            ]
        ),
        "b": jnp.linspace(-1, 1, 6),
        "c": jnp.array(
            [
                0.7158846030601348,
                0.0395597240741493,
                0.7112768202319031,
                -0.4008015774360876,
                -0.9160948070198838,
                0.23713062060014042,
            ]
        ),
    }


def enhancement(W, s2):
    u = s2 / (1 + s2)
    return 1 + 0.804 * u * jax.nn.sigmoid(jnp.dot(W["c"], jax.nn.silu(W["a"] * u + W["b"])))


def pbe_correlation(n, sigma):
    """Energy per volume of an unpolarised density (J. P. Perdew, Y. Wang 1992; J. P. Perdew et al. 1996)."""
    r = (3 / (4 * jnp.pi * n)) ** (1 / 3)
    A, a1, b = 0.0310907, 0.21370, (7.5957, 3.5876, 1.6382, 0.49294)
    q = b[0] * r**0.5 + b[1] * r + b[2] * r**1.5 + b[3] * r**2
    eps = -2 * A * (1 + a1 * r) * jnp.log1p(1 / (2 * A * q))
    gamma, beta = (1 - jnp.log(2.0)) / jnp.pi**2, 0.06672455060314922
    t2 = jnp.pi / 16 * (3 * jnp.pi**2) ** (-1 / 3) * sigma * n ** (-7 / 3)
    At2 = beta / gamma / jnp.expm1(-eps / gamma) * t2
    return n * (eps + gamma * jnp.log1p(beta / gamma * t2 * (1 + At2) / (1 + At2 + At2**2)))


def energy_per_volume(W, n, sigma):
    s2 = sigma * n ** (-8 / 3) / (4 * (3 * jnp.pi**2) ** (2 / 3))
    return -0.75 * (3 / jnp.pi) ** (1 / 3) * n ** (4 / 3) * enhancement(W, s2) + pbe_correlation(n, sigma)


def loss_of(energy, dipole):
    return (energy - TARGET[0]) ** 2 + jnp.sum((dipole - jnp.array(TARGET[1])) ** 2)


def ours():
    """(loss(W), unit of its dipole) by dftfd."""
    from functools import partial

    import dftfd
    from dftfd.autofd import compose
    from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled

    @dftfd.functional("gga_x_of_a_small_network")
    @spin_scaled
    def exchange(n, *, W=weights()):  # noqa: B008
        return slater_exchange(n) * compose(partial(enhancement, W), reduced_gradient_squared(n))

    molecule = dftfd.molecule(WATER, basis=BASIS)
    scf = dftfd.differentiable_scf(molecule, density_fit=False, grid_level=GRID, conv_tol=1e-10)
    correlation = dftfd.get_functional("gga_c_pbe")

    def loss(W):
        found = scf(exchange.with_parameters(W=W) + correlation)
        return loss_of(found.energy, found.dipole)

    return loss


def theirs(implicit, tolerance=1e-10):
    """loss(W) by pyscfad, through its cycles or by the implicit function theorem."""
    from pyscfad import config_update, dft, gto

    mole = gto.Mole(atom=WATER, basis=BASIS, verbose=0)
    mole.build(trace_exp=False, trace_ctr_coeff=False, trace_coords=False)

    def evaluator(W):
        def eval_xc(code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
            n = jnp.maximum(rho[0], 1e-12)
            sigma = jnp.maximum(rho[1] ** 2 + rho[2] ** 2 + rho[3] ** 2, 1e-24)
            each = jax.vmap(lambda n, sigma: energy_per_volume(W, n, sigma))
            vrho, vsigma = jax.grad(lambda n, sigma: jnp.sum(each(n, sigma)), argnums=(0, 1))(n, sigma)
            return each(n, sigma) / n, (vrho, vsigma, None, None), None, None

        return eval_xc

    class WithNetwork(dft.RKS):
        """Its numbers stand among what is traced, as its implicit differentiation needs."""

        _dynamic_attr = [*dft.RKS._dynamic_attr, "W"]  # noqa: RUF012

        def get_veff(self, *given, **options):
            self._numint.eval_xc = evaluator(self.W)
            return super().get_veff(*given, **options)

    def loss(W):
        solver = WithNetwork(mole, xc="pbe,pbe", W=W)
        solver.grids.level, solver.conv_tol = GRID, tolerance
        with config_update("pyscfad_scf_implicit_diff", implicit):
            energy = solver.kernel()
        P = solver.make_rdm1()
        charges, R = mole.atom_charges(), mole.atom_coords()
        electrons = jnp.einsum("xab,ab->x", jnp.asarray(mole.intor_symmetric("int1e_r", comp=3)), P)
        return loss_of(energy, jnp.asarray(charges @ R) - electrons)

    return loss


def theirs_of_graddft(count):
    """loss(W) by GradDFT: so many of its differentiable cycles, which begin at PBE's density."""
    from grad_dft import NeuralFunctional, diff_scf_loop, molecule_from_pyscf
    from pyscf import dft, gto

    mole = gto.M(atom=WATER, basis=BASIS, verbose=0)
    solver = dft.UKS(mole, xc="pbe,pbe")
    solver.grids.level, solver.conv_tol = GRID, 1e-10
    solver.kernel()
    molecule = molecule_from_pyscf(solver)

    def invariants(atoms):
        n = jnp.maximum(jnp.sum(atoms.density(), axis=-1), 1e-12)
        return n, jnp.maximum(jnp.sum(jnp.sum(atoms.grad_density(), axis=1) ** 2, axis=-1), 1e-24)

    def energies(atoms, *_, **__):
        n, sigma = invariants(atoms)
        return jnp.stack([-0.75 * (3 / jnp.pi) ** (1 / 3) * n ** (4 / 3), jax.vmap(pbe_correlation)(n, sigma)], axis=1)

    def reduced(atoms, *_, **__):
        n, sigma = invariants(atoms)
        return (sigma * n ** (-8 / 3) / (4 * (3 * jnp.pi**2) ** (2 / 3)))[:, None]

    def coefficients(instance, s2):
        W = {name: instance.param(name, lambda key, x=x: x) for name, x in weights().items()}
        F = jax.vmap(lambda s2: enhancement(W, s2))(s2[:, 0])
        return jnp.stack([F, jnp.ones_like(F)], axis=1)

    functional = NeuralFunctional(coefficients=coefficients, energy_densities=energies, coefficient_inputs=reduced)
    cycles = diff_scf_loop(functional, cycles=count)
    integrals = jnp.asarray(mole.intor_symmetric("int1e_r", comp=3))
    nuclei = jnp.asarray(mole.atom_charges() @ mole.atom_coords())

    def loss(W):
        found = cycles({"params": W}, molecule)
        return loss_of(found.energy, nuclei - jnp.einsum("xab,sab->x", integrals, found.rdm1))

    return loss


LOSSES = {
    "dftfd": ours,
    "pyscfad, unrolled": lambda: theirs(False),
    "pyscfad, unrolled, 1e-14": lambda: theirs(False, 1e-14),
    "pyscfad, implicit": lambda: theirs(True),
    "GradDFT, 25 cycles": lambda: theirs_of_graddft(25),
    "GradDFT, 100 cycles": lambda: theirs_of_graddft(100),
}


def checked(loss, W, slope, h=2e-3):
    """The loss's derivative along the numbers themselves: by a five-point difference, and by its gradient."""
    at = lambda t: float(loss(jax.tree_util.tree_map(lambda x: (1 + t) * x, W)))
    difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    leaves = zip(jax.tree_util.tree_leaves(slope), jax.tree_util.tree_leaves(W), strict=True)
    return difference, float(sum(jnp.sum(g * x) for g, x in leaves))


def step(way):
    """One row: what the second step found, and what both took."""
    loss = LOSSES[way]()
    row, code = {"way": way}, jax.value_and_grad(loss)
    for name, scale in (("first", 1.0), ("second", 1.01)):
        W, start = jax.tree_util.tree_map(lambda x, scale=scale: x * scale, weights()), time.process_time()
        value, slope = jax.block_until_ready(code(W))
        row[f"{name}_seconds"] = round(time.process_time() - start, 2)
    row |= {"loss": float(value), "gradient": [float(x) for leaf in jax.tree_util.tree_leaves(slope) for x in leaf]}
    row["by_difference"], row["by_gradient"] = checked(loss, W, slope)
    return row | {"peak_mebibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def answered(way, command, given=None):
    """The row that a process tells; None where it fails."""
    answer = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, text=True, env=os.environ | {"JAX_ENABLE_X64": "1"}
    )
    if answer.returncode:
        print(f"{way}: failed", flush=True)
        return None
    return json.loads(answer.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pyscfad", help="interpreter of an environment with pyscfad")
    parser.add_argument("--graddft", help="the same of GradDFT")
    parser.add_argument("--dqc", help="the same of DQC, which needs no JAX")
    parser.add_argument("--way", help="one way alone, in this process")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/training_step.json")
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(step(arguments.way)))
        return
    rows = []
    given = {"dftfd": sys.executable, "pyscfad": arguments.pyscfad, "GradDFT": arguments.graddft}
    for way in LOSSES:
        python = given[way.partition(",")[0]]
        found = None if python is None else answered(way, [python, __file__, "--way", way])
        rows += [] if found is None else [found]
    if arguments.dqc:
        numbers = {name: [float(x) for x in values] for name, values in weights().items()}
        other = str(Path(__file__).with_name("training_step_dqc.py"))
        found = answered("DQC", [arguments.dqc, other], json.dumps(numbers))
        rows += [] if found is None else [found]
    for row in rows:
        slope, before = (jnp.array(one["gradient"]) for one in (row, rows[0]))
        row["gradient_off"] = float(jnp.abs(slope - before).max() / jnp.abs(before).max())
        print({name: value for name, value in row.items() if name != "gradient"}, flush=True)
    if arguments.save:
        import measuring

        measuring.keep("training_step", [measuring.machine() | row for row in rows])


if __name__ == "__main__":
    main()
