"""Options and the calculation: forces as sums over terms, the energy as JAX code."""
