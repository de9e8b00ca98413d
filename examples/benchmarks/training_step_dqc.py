"""The training step of training_step.py by DQC, whose environment has PyTorch and no JAX; a row on standard output."""

import json
import math
import resource
import time

import dqc
import torch
from dqc.utils.datastruct import ValGrad
from dqc.xc.custom_xc import CustomXC

WATER = "O 0 0 0.22166487441; H 0 1.43090056 -0.8866594976; H 0 -1.43090056 -0.8866594976"
"""That of training_step.py in bohr."""

BASIS, TARGET = "6-31g", (-76.3, (0.0, 0.0, -0.8))


def energy_per_volume(W, n, sigma):
    """PBE's correlation, and exchange with a network in its enhancement factor, of an unpolarised density."""
    s2 = sigma * n ** (-8 / 3) / (4 * (3 * math.pi**2) ** (2 / 3))
    u = (s2 / (1 + s2))[..., None]
    factor = torch.sigmoid((W["c"] * torch.nn.functional.silu(W["a"] * u + W["b"])).sum(-1))
    exchange = -0.75 * (3 / math.pi) ** (1 / 3) * n ** (4 / 3) * (1 + 0.804 * u[..., 0] * factor)
    r = (3 / (4 * math.pi * n)) ** (1 / 3)
    A, a1, b = 0.0310907, 0.21370, (7.5957, 3.5876, 1.6382, 0.49294)
    q = b[0] * r**0.5 + b[1] * r + b[2] * r**1.5 + b[3] * r**2
    eps = -2 * A * (1 + a1 * r) * torch.log1p(1 / (2 * A * q))
    gamma, beta = (1 - math.log(2.0)) / math.pi**2, 0.06672455060314922
    t2 = math.pi / 16 * (3 * math.pi**2) ** (-1 / 3) * sigma * n ** (-7 / 3)
    At2 = beta / gamma / torch.expm1(-eps / gamma) * t2
    return exchange + n * (eps + gamma * torch.log1p(beta / gamma * t2 * (1 + At2) / (1 + At2 + At2**2)))


class Network(CustomXC):
    """Named numbers W."""

    def __init__(self, W):
        super().__init__()
        for name, values in W.items():
            setattr(self, name, torch.nn.Parameter(values.clone()))

    @property
    def family(self):
        return 2

    def get_edensityxc(self, densinfo: ValGrad):
        n = densinfo.value.abs().clamp_min(1e-12)
        sigma = (densinfo.grad**2).sum(-2).clamp_min(1e-24)
        return energy_per_volume({"a": self.a, "b": self.b, "c": self.c}, n, sigma)


def loss_of(W):
    """(loss, its derivatives by a, b, c)."""
    xc = Network(W)
    molecule = dqc.Mol(WATER, basis=BASIS, dtype=torch.double)
    solved = dqc.KS(molecule, xc=xc).run(fwd_options={"f_tol": 1e-10}, bck_options={"rtol": 1e-9, "atol": 1e-12})
    grid = molecule.get_grid()
    hamiltonian = molecule.get_hamiltonian()
    P = hamiltonian._orthozer.unconvert_dm(solved.aodm())  # release 0.1.0 leaves it out of aodm2dens
    density = hamiltonian.aodm2dens(P, grid.get_rgrid())
    electrons = (grid.get_dvolume() * density) @ grid.get_rgrid()
    charges = torch.tensor([8.0, 1.0, 1.0], dtype=torch.double)
    R = torch.tensor([[float(x) for x in atom.split()[1:]] for atom in WATER.split(";")], dtype=torch.double)
    dipole = charges @ R - electrons
    loss = (solved.energy() - TARGET[0]) ** 2 + ((dipole - torch.tensor(TARGET[1], dtype=torch.double)) ** 2).sum()
    loss.backward()
    return float(loss), {name: getattr(xc, name).grad.clone() for name in W}


def step(W):
    """One row, W the numbers of the first step."""
    row = {"way": "DQC"}
    for name, scale in (("first", 1.0), ("second", 1.01)):
        scaled, start = {k: scale * x for k, x in W.items()}, time.process_time()
        value, slope = loss_of(scaled)
        row[f"{name}_seconds"] = round(time.process_time() - start, 2)
    row |= {"loss": value, "gradient": [float(x) for name in sorted(slope) for x in slope[name]]}
    row["peak_mebibytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    at = lambda t: loss_of({k: (1 + t) * x for k, x in scaled.items()})[0]
    h = 2e-3
    row["by_difference"] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    row["by_gradient"] = sum(float((slope[k] * scaled[k]).sum()) for k in W)
    return row


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = json.loads(input())
    print(json.dumps(step({name: torch.tensor(x, dtype=torch.double) for name, x in given.items()})))
