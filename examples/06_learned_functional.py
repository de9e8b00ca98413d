"""A neural network as a functional: an exchange energy learned from Hartree-Fock energies and densities.

    e_x = e_x^LDA(n) F(s),   F = 1 + 0.804 u sigmoid(network(u)),   u = s^2 / (1 + s^2)

The form keeps what is known: F = 1 in the uniform gas, F < 1.804 (Lieb-Oxford bound for every density), spin and
coordinate scaling. The rest is a network of Equinox, a parameter of the functional like kappa in PBE. Exchange alone,
without correlation, has an exact reference in the same basis: Hartree-Fock. Its density goes into the Kohn-Sham
equations, and the loss measures the energy and the density that come out,

    loss = mean over molecules of (E - E_HF)^2 + integral of (n - n_HF)^2 / N.

Its derivative runs through orbitals, matrix and potential of the learned functional; nothing of it is written here.
Afterwards the functional is used like any other. Density in the loss: L. Li et al., Phys. Rev. Lett. 126, 036401
(2021), doi:10.1103/PhysRevLett.126.036401; bounded enhancement factors: S. Dick, M. Fernandez-Serra, Phys. Rev. B 104,
L161109 (2021), doi:10.1103/PhysRevB.104.L161109.

Needs pip install 'dftfd[learned]'. Takes half a minute. PBE in the table is its exchange alone.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dftfd
from dftfd.autofd import compose
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled

TRAINING = {"He": "He 0 0 0;", "LiH": "Li 0 0 0; H 0 0 1.6", "Ne": "Ne 0 0 0;"}
UNSEEN = {"H2": "H 0 0 0; H 0 0 0.74", "Be": "Be 0 0 0;", "FH": "F 0 0 0; H 0 0 0.917"}
SETTINGS = {"density_fit": False, "grid_level": 1}


class Enhancement(eqx.Module):
    """F(s) as code of s^2."""

    network: eqx.nn.MLP

    def __init__(self, width=8, depth=2, seed=0):
        self.network = eqx.nn.MLP("scalar", "scalar", width, depth, jax.nn.silu, key=jax.random.key(seed))

    def __call__(self, s2):
        u = s2 / (1 + s2)
        return 1 + 0.804 * u * jax.nn.sigmoid(self.network(u))


@dftfd.functional("gga_x_learned")
@spin_scaled
def learned_exchange(n, *, enhancement=Enhancement()):  # noqa: B008  a default like any number's
    """e_x = e_x^LDA(n) F(s), F a neural network."""
    return slater_exchange(n) * compose(enhancement, reduced_gradient_squared(n))


class Case:
    """One molecule with its Hartree-Fock energy and density, and its energy as a function of the density matrix."""

    def __init__(self, geometry):
        self.molecule = dftfd.molecule(geometry, basis="6-31g")
        self.n_electrons = self.molecule.n_electrons
        reference = dftfd.run_scf(self.molecule, xc="hf", conv_tol=1e-10, density_fit=False)
        self.energy, self.P = reference.energy, jnp.asarray(reference.density_matrix)
        self.total_energy = dftfd.energy(self.molecule, learned_exchange, density_fit=False, grid_level=0)
        S, U = jnp.linalg.eigh(self.total_energy.S)
        self.X = U / jnp.sqrt(S)

    def squared_distance(self, P):
        """Integral of (n - n_HF)^2 [bohr^-3] for the density n of P (1, ao, ao)."""
        grid = self.total_energy.grids["xc"]
        change = jnp.einsum("mp,mn,np->p", grid.ao[0], P[0] - self.P[0], grid.ao[0])
        return grid.weights @ change**2

    def loss(self, functional):
        """Squared errors of energy and density after one Kohn-Sham step from the Hartree-Fock density."""
        E = self.total_energy.with_functional(functional)
        (F,) = jax.grad(E)(self.P)
        P = self.X @ aufbau(self.X.T @ F @ self.X, self.n_electrons // 2) @ self.X.T
        return (E(P[None]) - self.energy) ** 2 + self.squared_distance(P[None]) / self.n_electrons


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def aufbau(F, n_occupied):
    """The density matrix of the lowest orbitals of F, in an orthonormal basis, two electrons in each."""
    C = jnp.linalg.eigh(F)[1][:, :n_occupied]
    return 2 * C @ C.T


@aufbau.defjvp
def _aufbau_jvp(n_occupied, primals, tangents):
    """First-order perturbation theory; degenerate orbitals do no harm, only occupied and empty ones mix."""
    (F,), (dF,) = primals, tangents
    e, C = jnp.linalg.eigh(F)
    occupied, empty = C[:, :n_occupied], C[:, n_occupied:]
    mixing = (empty.T @ dF @ occupied) / (e[None, :n_occupied] - e[n_occupied:, None])
    dP = 2 * empty @ mixing @ occupied.T
    return aufbau(F, n_occupied), dP + dP.T


def train(cases, steps=300, rate=0.1):
    """The enhancement factor with the least mean loss, and the losses on the way."""
    enhancement = learned_exchange.parameters["enhancement"]
    arrays, rest = eqx.partition(enhancement, eqx.is_inexact_array)
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(arrays, case):
        return case.loss(learned_exchange.with_parameters(enhancement=eqx.combine(arrays, rest)))

    derivatives = [jax.jit(jax.value_and_grad(functools.partial(loss, case=case))) for case in cases]
    state, history = optimiser.init(arrays), []
    for _ in range(steps):
        values, gradients = zip(*(derivative(arrays) for derivative in derivatives), strict=True)
        mean = jax.tree.map(lambda *g: sum(g) / len(g), *gradients)
        update, state = optimiser.update(mean, state)
        arrays = optax.apply_updates(arrays, update)
        history.append(float(np.mean(values)))
    return eqx.combine(arrays, rest), history


def errors(case, functional):
    """Self-consistent errors: energy [hartree], and sqrt(integral of (n - n_HF)^2 / N)."""
    result = dftfd.run_scf(case.molecule, xc=functional, **SETTINGS)
    change = case.squared_distance(jnp.asarray(result.density_matrix))
    return result.energy - case.energy, float(np.sqrt(change / case.n_electrons))


def main(steps=300):
    training = {name: Case(geometry) for name, geometry in TRAINING.items()}
    enhancement, history = train(list(training.values()), steps)
    print(f"loss {history[0]:.2e} -> {history[-1]:.2e} in {steps} steps")
    learned = dftfd.register(learned_exchange.with_parameters(enhancement=enhancement), "gga_x_learned_from_hf")
    F = [float(enhancement(jnp.array(s * s))) for s in (0.0, 0.5, 1.0, 2.0)]
    print("F(s) at s = 0, 0.5, 1, 2: " + ", ".join(f"{value:.4f}" for value in F))
    print("self-consistent errors against Hartree-Fock, energy [hartree] and density:")
    table = {}
    for name, case in (training | {name: Case(geometry) for name, geometry in UNSEEN.items()}).items():
        table[name] = errors(case, learned), errors(case, "gga_x_pbe")
        (energy, density), (pbe_energy, pbe_density) = table[name]
        label = "" if name in training else "  not trained on"
        print(f"  {name:4s} learned {energy:+.4f}, {density:.4f}   PBE {pbe_energy:+.4f}, {pbe_density:.4f}{label}")
    return history, F, table


if __name__ == "__main__":
    main()
