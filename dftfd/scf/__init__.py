"""The self-consistent field cycle on plain matrices: it knows a Fock callback, an overlap and occupation numbers.

Nothing here knows what a functional or a quadrature grid is; `dftfd.tasks.run` puts the pieces together.
"""
