"""From a functional to numbers: orbitals on the grid, kernels, XC matrices, responses, v_xc at a point."""
