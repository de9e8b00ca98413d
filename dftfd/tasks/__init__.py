"""What users run: calculations, geometry optimisations, scans, reaction and interaction energies."""
