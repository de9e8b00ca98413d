"""What each property of a random case is compared with: a name, and the check of it."""

from tests.combinations import ground, objects, responses

CHECKS = {
    "energy": ground.energy,
    "orbital_energies": ground.orbital_energies,
    "components": ground.components,
    "traced_energy": ground.traced_energy,
    "janak": ground.janak,
    "forces": ground.forces,
    "force_sums": ground.force_sums,
    "hessian": ground.hessian,
    "dipole": ground.dipole,
    "parameters": ground.parameters,
    "order": ground.order,
    "rotation": ground.rotation,
    "spins": ground.spins,
    "spin_exchange": ground.spin_exchange,
    "size": ground.size,
    "polarizability": responses.polarizability,
    "dynamic_polarizability": responses.dynamic_polarizability,
    "infrared": responses.infrared,
    "excitations": responses.excitations,
    "tamm_dancoff": responses.tamm_dancoff,
    "excitations_of_pyscf": responses.excitations_of_pyscf,
    "excited_forces": responses.excited_forces,
    "excited_dipole": responses.excited_dipole,
    "stability": responses.stability,
    "save_load": objects.save_load,
    "restart": objects.restart,
    "to_pyscf": objects.to_pyscf_object,
    "export": objects.export,
}
