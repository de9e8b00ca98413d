"""Occupation numbers."""

import numpy as np

from dftfd.errors import InputError

# Orbital energies that agree to this many decimals are degenerate; ties are filled in the order of the eigensolver.
DEGENERATE_DECIMALS = 9


def aufbau(mo_energy, n_occupied, capacity):
    """Occupation numbers (spin, mo): per spin the `n_occupied` lowest orbitals hold `capacity` electrons each.

    mo_energy (spin, mo) [hartree]. capacity is 2 for a restricted run and 1 for an unrestricted one; n_occupied has one
    entry per spin and may be zero.
    """
    occupation = np.zeros_like(mo_energy)
    for s, (energies, count) in enumerate(zip(mo_energy, n_occupied, strict=True)):
        if count > energies.size:
            raise InputError(
                f"{count} orbitals must be occupied but the basis set gives only {energies.size} independent ones; "
                "take a larger basis set or another spin."
            )
        lowest = np.argsort(energies.round(DEGENERATE_DECIMALS), kind="stable")[:count]
        occupation[s, lowest] = capacity
    return occupation


def frontier_energies(mo_energy, occupation):
    """Per spin the pair (HOMO, LUMO) of orbital energies [hartree]; None where there is no such orbital."""
    pairs = []
    for energies, n in zip(mo_energy, occupation, strict=True):
        occupied, virtual = energies[n > 0], energies[n == 0]
        pairs.append((float(occupied.max()) if occupied.size else None, float(virtual.min()) if virtual.size else None))
    return tuple(pairs)
