"""Driven response with a cheaper energy: synthetic equations, whose solution is known from dense linear algebra."""

import numpy as np
import pytest

from dftfd.response.subspaces import driven_response


class Dense:
    """M a matrix, N the differences of orbital energies."""

    is_local = True

    def __init__(self, gaps, coupling):
        self.gaps, self._M = gaps, np.diag(gaps) + coupling

    def real(self, X):
        return X @ self._M

    def imaginary(self, X):
        return X * self.gaps

    tamm_dancoff = real


@pytest.mark.parametrize("omega", [0.0, 0.1])
def test_a_cheaper_energy_does_not_stop_the_equations_short_of_a_tight_threshold(rng, omega):
    """1e-11 of the perturbation: what the cheaper energy adds to a nearly converged solution is not rounding."""
    size, n = 300, 12
    gaps = np.sort(rng.uniform(0.3, 5.0, size))
    half = rng.normal(size=(size, 40)) / np.sqrt(size)
    coupling = 0.2 * half @ half.T
    noise = rng.normal(size=(size, size)) * 1e-3 / np.sqrt(size)
    full, cheaper = Dense(gaps, coupling), Dense(gaps, coupling + noise + noise.T)
    G = rng.normal(size=(n, size))
    R, L = driven_response(full, G, omega, 1e-11, 2000, lambda text: None, cheaper)
    M = np.diag(gaps) + coupling
    expected = np.linalg.solve(M - omega**2 * np.diag(1 / gaps), -G.T).T  # L = omega R / N
    assert R == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())
    assert L == pytest.approx(omega * R / gaps, abs=1e-9)
