"""Functionals as StableHLO, through jax.export: for JAX without dftfd, and for C++ programs that run XLA."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export

from dftfd.autofd.scalar.on_jax import run
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import public, whole
from dftfd.translate.c_files import Exported
from dftfd.translate.programs import WRITTEN_OUT, identifier
from dftfd.xc.channels import FAMILIES, MEMBERS


@public
def stablehlo(
    functional: Any, n_spin: Annotated[int, whole(1, 2)] = 2, order: Annotated[int, whole(0, WRITTEN_OUT)] = 1
) -> jax_export.Exported:
    """Energy and derivatives of a semilocal functional as a `jax.export.Exported` of any number of points.

    It takes rho, sigma, lapl and tau, arrays (point, component) as libxc has them, and its parameters (count,), and
    gives {"e": (point, 1), "zk", "vrho", ...}, see `dftfd.export`; `.call(...)` runs it, `.serialize()` makes bytes for
    `jax.export.deserialize` (both need the package flatbuffers), `.mlir_module()` is its text.

    functional: name, expression or Functional.   order: of the highest derivatives, 0 to 2.
    """
    given = functional if isinstance(functional, Functional) else get_functional(functional)
    if not given.has_energy or not given.is_semilocal:
        raise UnsupportedError(f"functional {given.name!r} has no semilocal energy that could be exported.")
    exported = Exported(identifier(given.name), given, order)
    points = jax_export.symbolic_shape("points")[0]
    shapes = [jax.ShapeDtypeStruct((points, len(MEMBERS[n_spin][f])), np.float64) for f in FAMILIES]
    count = sum(len(p.values) for p in exported.parameters)
    return jax_export.export(jax.jit(_code(exported, n_spin)))(*shapes, jax.ShapeDtypeStruct((count,), np.float64))


def _code(exported: Exported, n_spin: int):
    """JAX code of arrays of points."""
    programs = exported.spins[n_spin]
    rows = {row.derivative: row.row for row in programs.rows(exported.order)}

    def code(rho, sigma, lapl, tau, parameters):
        given = jnp.concatenate([rho, sigma, lapl, tau], axis=-1)
        numbers = [jnp.full(rho.shape[:1], p) for p in parameters]
        outputs = run(programs.program(exported.order), [*(given[:, k] for k in programs.used), *numbers])
        nothing, n = jnp.zeros(rho.shape[:1]), rho.sum(axis=-1)
        results = {}
        for slot, derivatives in exported.components(n_spin).items():
            columns = [outputs[rows[d]] if d in rows else nothing for d in derivatives]
            results[slot] = jnp.stack(columns, axis=-1)
        results["zk"] = jnp.where(n > 0, outputs[0] / jnp.where(n > 0, n, 1.0), 0.0)[:, None]
        return results

    return code
