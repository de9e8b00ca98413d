"""JAX's own syntax on Functions: jax.grad(F)(f) and its kin."""
