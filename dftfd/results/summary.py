"""Text for people: the summary of a result.

The functions read attributes only, so this module depends on nothing above it.
"""

import math

HARTREE_IN_EV = 27.21138602


def result_summary(result):
    """A readable account of an SCF result; energies in hartree."""
    return "\n".join(
        [title(result), outcome(result), *energy_lines(result), *property_lines(result), *method_lines(result)]
    )


def title(result):
    """What was computed, in one line."""
    molecule, settings = result.molecule, result.settings
    return (
        f"{molecule.formula}  {result.method} {settings.functional} / {settings.basis}  "
        f"charge {result.charge:+g}, spin {result.spin:g}, {result.n_electrons:g} electrons"
    )


def outcome(result):
    """Whether the run converged."""
    if result.converged:
        return "; ".join([f"converged in {result.cycles} cycles", *result.steps])
    last = result.history[-1]
    return (
        f"NOT CONVERGED after {result.cycles} cycles (energy change {last.energy_change:.1e}, gradient "
        f"{last.gradient_norm:.1e}): these numbers are not a solution"
    )


def energy_lines(result):
    """Components that are not zero, then their sum, and what has no energy to be in it."""
    shown = [*result.energy_table, ("total energy", result.energy)]
    if result.entropy_term:
        shown += [("entropy, -T S", result.entropy_term), ("free energy", result.free_energy)]
    lines = [f"  {label:<22}{value:20.10f}" for label, value in shown]
    return [*lines, f"  {without_energy(result)}"] if without_energy(result) else lines


def without_energy(result) -> str:
    """What the total energy lacks: models of the potential have orbitals and no energy. Empty for functionals."""
    models = ", ".join(term.name for _, term in result.functional.terms if not term.has_energy)
    return f"no energy of {models}, a model of the potential alone: the total is incomplete" if models else ""


def property_lines(result):
    """Frontier orbitals, dipole moment and spin; nothing where the density is no solution."""
    if not result.has_properties:
        return []
    lines = []
    names = ("",) if len(result.frontier) == 1 else (" alpha", " beta")
    for name, (homo, lumo) in zip(names, result.frontier, strict=True):
        gap = "" if None in (homo, lumo) else f"   gap {(lumo - homo) * HARTREE_IN_EV:.4f} eV"
        lines.append(f"  HOMO, LUMO{name:<12}{_energy(homo)}{_energy(lumo)}{gap}")
    x, y, z = (round(component, 6) + 0.0 for component in result.dipole)  # + 0.0 turns -0.0 into 0.0
    size = math.hypot(*result.dipole_debye)
    lines.append(f"  dipole                {x:12.6f}{y:12.6f}{z:12.6f} e bohr   |mu| {size:.4f} debye")
    if result.method != "RKS":
        lines.append(f"  <S^2>                 {result.s_squared:12.6f}")
    return lines


def method_lines(result):
    """The approximations that a reader of the numbers must know."""
    settings = result.settings
    integrals = f"density fitting, {settings.auxiliary_basis}" if settings.auxiliary_basis else "exact"
    lines = [f"  Coulomb integrals     {integrals}"]
    if result.n_electrons_quadrature is not None:
        origin = "given by the user" if settings.grid_level is None else f"level {settings.grid_level}"
        counts = " + ".join(f"{n:.8f}" for n in result.n_electrons_quadrature)
        lines.append(f"  grid                  {origin}, {settings.n_points} points, holds {counts} electrons")
    potential = result.calculation.surroundings.potential
    if potential is not None:
        acts_on = "electrons and nuclei" if potential.on_nuclei else "electrons"
        lines.append(f"  external potential    {potential.name}, acts on {acts_on}")
    return lines


def _energy(value):
    return f"{'none':>12}" if value is None else f"{value:12.6f}"
