"""Linear response: how orbitals follow a perturbation, polarisabilities, and excitations."""
