"""Transformations of functionals: grad, jvp, vjp, linearize, linear_transpose, hvp and Jacobians."""
