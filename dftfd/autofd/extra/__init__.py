"""Around the core: spaces with quadratures, exact Gaussian integrals, formulas and graphs to read."""
