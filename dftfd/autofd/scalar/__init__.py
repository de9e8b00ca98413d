"""One scalar program of a formula, and the algebras that run it."""
