"""Operations of the host as primitives of JAX with rules: SCF, responses, gradients by the nuclei.

They are evaluated at once, outside of compiled programs. `scf` in their parameters is a DifferentiableSCF
(training.self_consistent), which finds solutions and keeps the last ones.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_zero, shaped, whole_tangents
from dftfd.errors import UnsupportedError
from dftfd.terms.traced import linear_map

_COMPILED = (
    "a self-consistent calculation runs outside of compiled programs: take jax.jit, lax.scan and the like off what "
    "calls it; what depends on its results may be compiled."
)


def _solve(centres, field, start, *values, scf, structure):
    arrays = [np.asarray(x) for x in (centres, field, start)]
    result = scf.solution(structure, *arrays, [np.asarray(v) for v in values]).result
    return [result.energy, result.density_matrix, result.fock, result.mo_coeff, result.mo_occ]


def _shapes_of_solution(centres, field, start, *values, scf, structure):
    n, n_mo, spins = scf.molecule.n_ao, scf.n_orbitals, scf.n_spin
    shapes = (), (spins, n, n), (spins, n, n), (spins, n, n_mo), (spins, n_mo)
    return [shaped(jax.ShapeDtypeStruct(shape, np.float64)) for shape in shapes]


SOLUTION = host_primitive("self_consistent_solution", _solve, _shapes_of_solution, _COMPILED)
"""(centres, field, guess, *values) -> energy, density matrix, Fock matrix, orbitals, occupations."""


def _jvp_of_solution(primals, tangents, *, scf, structure):
    centres, field, _, *values = primals
    found = SOLUTION.bind(*primals, scf=scf, structure=structure)
    P = found[1]
    moves = not is_zero(tangents[0])
    dcentres, dfield, _, *dvalues = whole_tangents(tangents)

    def energy(field, values, P):
        return scf.total(structure, field, values, P, varying=True)

    def slopes(field, values):
        return jax.value_and_grad(energy, argnums=2)(field, values, P)

    dE, dF = jax.jvp(slopes, (field, values), (dfield, dvalues))[1]
    residual = centres, field, *values, P
    if moves:
        (slope,) = NUCLEAR_GRADIENT.bind(*residual, scf=scf, structure=structure)
        dE = dE + jnp.sum(slope * dcentres)
        dF = dF + linear_map(_no_moving_orbitals, _no_moving_orbitals, P.shape, dcentres)
    (dP,) = RESPONSE.bind(*residual, dF, scf=scf, structure=structure, of="density_response")
    (change,) = RESPONSE.bind(*residual, dP, scf=scf, structure=structure, of="fock_response")
    return found, [dE, dP, dF + change, *map(jnp.zeros_like, found[3:])]


derivative_rules(SOLUTION, _jvp_of_solution)


def _no_moving_orbitals(x):
    raise UnsupportedError(
        "by coordinates there is the derivative of the energy alone, in reverse mode (jax.grad): those of densities "
        "need derivatives of integrals that are not there."
    )


def _respond(centres, field, *rest, scf, structure, of):
    *values, P, X = map(np.asarray, rest)
    solved = scf.at_density(structure, np.asarray(centres), np.asarray(field), values, P)
    return [getattr(solved, of)(X)]


RESPONSE = host_primitive("response", _respond, lambda *avals, **_: [avals[-1]], _COMPILED)
"""(centres, field, *values, P, X) -> a symmetric linear map of X (spin, ao, ao) at a solution."""


def _jvp_of_response(primals, tangents, **params):
    _require_constant(tangents[:-1])
    found = RESPONSE.bind(*primals, **params)
    return found, RESPONSE.bind(*primals[:-1], *whole_tangents(tangents[-1:]), **params)


def _require_constant(tangents):
    if not all(map(is_zero, tangents)):
        raise UnsupportedError(
            "second derivatives by parameters are those of energies, as jax.jvp(jax.grad(f), ...) takes them; those of "
            "densities, dipoles and orbital energies need the response of the response, which is not there."
        )


def _transposed_response(cotangents, *operands, **params):
    (cotangent,) = cotangents
    if is_zero(cotangent):
        return [None] * len(operands)
    return [*[None] * (len(operands) - 1), *RESPONSE.bind(*operands[:-1], cotangent, **params)]


derivative_rules(RESPONSE, _jvp_of_response, _transposed_response)


def _nuclear_gradient(centres, field, *rest, scf, structure):
    *values, P = map(np.asarray, rest)
    return [scf.at_density(structure, np.asarray(centres), np.asarray(field), values, P).energy_gradient()]


NUCLEAR_GRADIENT = host_primitive("nuclear_gradient", _nuclear_gradient, lambda *avals, **_: [avals[0]], _COMPILED)


def _jvp_of_gradient(primals, tangents, **params):
    _require_constant(tangents)
    return NUCLEAR_GRADIENT.bind(*primals, **params), [jnp.zeros_like(primals[0])]


derivative_rules(NUCLEAR_GRADIENT, _jvp_of_gradient)
