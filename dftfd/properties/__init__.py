"""What follows from a density: moments, populations, spin, potentials and indicators as functions of the point."""
