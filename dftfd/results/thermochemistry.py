r"""Thermochemistry of an ideal gas of rigid rotors and harmonic oscillators; soft ones with entropies of rotors.

D. A. McQuarrie, Statistical Mechanics (1976), chapters 5 to 8. Quasi-harmonic entropies: S. Grimme, Chem. Eur. J. 18,
9955 (2012), doi:10.1002/chem.201200497; R. F. Ribeiro, A. V. Marenich, C. J. Cramer, D. G. Truhlar, J. Phys. Chem. B
115, 14556 (2011), doi:10.1021/jp205508z
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dftfd.libcint.mole import BOLTZMANN, DALTON_IN_ELECTRON_MASSES, HARTREE_IN_KJ, HARTREE_IN_WAVENUMBERS, PASCAL
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.rotations import moments_of_inertia, n_rotations, symmetry

ZERO = 1e-3
"""Wavenumber [cm^-1] below which a mode has no direction in energy: neither real nor imaginary."""

SOFT = 100.0
"""Wavenumber [cm^-1] below which quasi-harmonic entropies are not those of oscillators, of both ways."""

MEAN_MOMENT = 1e-44 / (9.10938356e-31 * 0.52917721092e-10**2)
"""Moment of inertia [m_e bohr^2] that bounds those of free rotors in Grimme's way: 1e-44 kg m^2."""


@dataclass(frozen=True)
class Part:
    """What one kind of motion adds: energy [hartree], entropy and heat capacity at constant volume [hartree/K]."""

    energy: float
    entropy: float
    heat_capacity: float


@dataclass(frozen=True, eq=False, repr=False)
class Thermochemistry(ShownAsText):
    """temperature [K], pressure [Pa], symmetry_number, with remarks on it.   quasi_harmonic: None, 'grimme', 'truhlar'.

    zero_point [hartree]; it is in the energy of `parts['vibrations']`, too.   parts: by motion, 'electrons',
    'translation', 'rotation', 'vibrations'.   n_imaginary: modes that are in none of them.
    """

    temperature: float
    pressure: float
    symmetry_number: int
    quasi_harmonic: str | None
    zero_point: float
    parts: Mapping[str, Part]
    n_imaginary: int
    remarks: tuple[str, ...] = ()

    @property
    def energy_at_zero(self) -> float:
        """Energy with zero-point vibrations, at 0 K [hartree]."""
        return self.parts["electrons"].energy + self.zero_point

    @property
    def internal_energy(self) -> float:
        """U [hartree]."""
        return sum(part.energy for part in self.parts.values())

    @property
    def enthalpy(self) -> float:
        """H = U + k T [hartree]."""
        return self.internal_energy + BOLTZMANN * self.temperature

    @property
    def entropy(self) -> float:
        """S [hartree/K]."""
        return sum(part.entropy for part in self.parts.values())

    @property
    def gibbs_energy(self) -> float:
        """G = H - T S [hartree]."""
        return self.enthalpy - self.temperature * self.entropy

    @property
    def heat_capacity(self) -> float:
        """At constant pressure [hartree/K]."""
        return sum(part.heat_capacity for part in self.parts.values()) + BOLTZMANN

    def __str__(self):
        how = {"grimme": ", quasi-harmonic entropy (Grimme)", "truhlar": ", quasi-harmonic entropy (Truhlar)"}
        head = (
            f"thermochemistry at {self.temperature:g} K, {self.pressure:g} Pa, symmetry number {self.symmetry_number}"
        )
        rows = [head + how.get(self.quasi_harmonic or "", ""), *(f"  {remark}" for remark in self.remarks)]
        if self.n_imaginary:
            rows.append(f"  {self.n_imaginary} imaginary modes are LEFT OUT")
        rows.append(f"  {'':<14}{'U / hartree':>18}{'S / (J/mol K)':>16}{'C_v / (J/mol K)':>17}")
        unit = 1e3 * HARTREE_IN_KJ
        for name, part in self.parts.items():
            rows.append(f"  {name:<14}{part.energy:18.8f}{part.entropy * unit:16.4f}{part.heat_capacity * unit:17.4f}")
        for name, value in (
            ("zero-point energy", self.zero_point),
            ("energy at 0 K", self.energy_at_zero),
            ("internal energy U", self.internal_energy),
            ("enthalpy H", self.enthalpy),
            ("Gibbs energy G", self.gibbs_energy),
        ):
            rows.append(f"  {name:<20}{value:18.8f} hartree")
        rows.append(f"  {'entropy S':<20}{self.entropy * unit:18.4f} J/mol K")
        return "\n".join(rows)


def thermochemistry(
    energy: float,
    multiplicity: int,
    masses,
    coordinates,
    wavenumbers,
    temperature: float,
    pressure: float,
    symmetry_number: int | None,
    quasi_harmonic: str | None,
) -> Thermochemistry:
    """That of molecules with an electronic energy [hartree], masses (atom,) [u] at coordinates (atom, 3) [bohr].

    wavenumbers: (mode,) [cm^-1], imaginary ones negative.   symmetry_number: None for that of the geometry.
    """
    of_geometry = symmetry(masses, coordinates)
    sigma = symmetry_number or of_geometry.number
    remarks: tuple[str, ...] = ()
    if symmetry_number is None and of_geometry.nearly > of_geometry.number:
        remarks = (
            f"the geometry is within {of_geometry.off:.2g} bohr of one with symmetry number {of_geometry.nearly}: "
            f"optimise it further, or give symmetry_number={of_geometry.nearly}",
        )
    if 15 <= temperature <= 40:
        remarks += (f"temperatures are in kelvin: {temperature:g} degrees Celsius are {temperature + 273.15:g} K",)
    if pressure < 2000:
        remarks += ("pressures are in pascal: an atmosphere is 101325 Pa, a bar 100000",)
    wavenumbers = np.where(np.abs(wavenumbers) < ZERO, 0.0, wavenumbers)
    kT = BOLTZMANN * temperature
    m = masses * DALTON_IN_ELECTRON_MASSES
    q_translation = (m.sum() * kT / (2 * np.pi)) ** 1.5 * kT / (pressure * PASCAL)
    w = wavenumbers[wavenumbers > 0] / HARTREE_IN_WAVENUMBERS
    parts = {
        "electrons": Part(energy, BOLTZMANN * float(np.log(multiplicity)), 0.0),
        "translation": Part(1.5 * kT, BOLTZMANN * float(2.5 + np.log(q_translation)), 1.5 * BOLTZMANN),
        "rotation": _rotation(m, coordinates, kT, sigma),
        "vibrations": _vibrations(w, kT, quasi_harmonic),
    }
    n_imaginary = int(np.sum(wavenumbers < 0))
    zero_point = float(w.sum() / 2)
    return Thermochemistry(temperature, pressure, sigma, quasi_harmonic, zero_point, parts, n_imaginary, remarks)


def _rotation(m, coordinates, kT, symmetry_number) -> Part:
    """Of a rigid rotor, at temperatures far above those of its levels."""
    n = n_rotations(m, coordinates)
    if n == 0:
        return Part(0.0, 0.0, 0.0)
    moments = moments_of_inertia(m, coordinates)[0][3 - n :]
    q = np.sqrt(np.prod(2 * moments * kT)) / symmetry_number
    if n == 2:  # both moments are the same
        return Part(kT, BOLTZMANN * float(1 + np.log(q)), BOLTZMANN)
    return Part(1.5 * kT, BOLTZMANN * float(1.5 + np.log(q * np.sqrt(np.pi))), 1.5 * BOLTZMANN)


def _vibrations(w, kT, quasi_harmonic) -> Part:
    """Of oscillators with energies w (mode,) [hartree]."""
    x = w / kT
    filling = 1.0 / np.expm1(np.minimum(x, 700.0))
    energy = w / 2 + w * filling
    capacity = x**2 * filling * (1.0 + filling)
    if quasi_harmonic == "truhlar":
        entropy = _oscillator_entropy(np.maximum(x, SOFT / HARTREE_IN_WAVENUMBERS / kT))
    else:
        entropy = _oscillator_entropy(x)
    if quasi_harmonic == "grimme":
        share = 1.0 / (1.0 + (SOFT / HARTREE_IN_WAVENUMBERS / w) ** 4)
        free = 1.0 / (2.0 * w)  # moment of inertia of the free rotor with this frequency, in units of hbar
        moment = free * MEAN_MOMENT / (free + MEAN_MOMENT)
        rotor = 0.5 + 0.5 * np.log(2.0 * np.pi * moment * kT)
        entropy = share * entropy + (1.0 - share) * rotor
    return Part(float(energy.sum()), BOLTZMANN * float(entropy.sum()), BOLTZMANN * float(capacity.sum()))


def _oscillator_entropy(x):
    """In units of k, of oscillators with x = w / kT."""
    x = np.minimum(x, 700.0)
    return x / np.expm1(x) - np.log(-np.expm1(-x))
