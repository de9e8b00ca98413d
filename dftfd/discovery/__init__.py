"""Search for functionals."""
