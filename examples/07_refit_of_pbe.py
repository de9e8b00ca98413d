"""PBE's kappa and mu fitted to atomisation energies through self-consistent calculations.

    F_x(s) = 1 + kappa - kappa / (1 + mu s^2 / kappa)

kappa = 0.804 comes from the Lieb-Oxford bound, mu = 0.2195 from the response of the uniform gas. Molecules ask for a
larger kappa, as revPBE has it (1.245; Y. Zhang, W. Yang, Phys. Rev. Lett. 80, 890 (1998),
doi:10.1103/PhysRevLett.80.890). Here both are fitted to W4-17 energies of a few small molecules, others are held out;
once free, and once with kappa within its bound. The basis is small, and the parameters make up for that, too.

    python examples/07_refit_of_pbe.py [--quick]
"""

import sys

import dftfd
from dftfd.benchmarks import read_set

TRAINING = ("h2", "ch4", "nh3", "h2o", "hf", "n2", "co", "f2")
HELD_OUT = ("c2h2", "hcn", "h2co", "hnc", "hof", "hoo", "nh2", "ch3")
OPTIONS = {"basis": "6-31g*", "grid_level": 1, "conv_tol": 1e-8}


def parts(training, held_out):
    """The two parts of W4-17 by the names of molecules."""
    everything = read_set("w4-17")
    of = lambda names: everything.of(r for r in everything.reactions if r.name in names)
    return of(training), of(held_out)


def tell(step):
    of = lambda error: "no solution" if error is None else f"{error:.3f}"
    print(f"{step.number:3d}: training {of(step.training)}, held out {of(step.validation)} kcal/mol", flush=True)


def main(quick=False):
    training, held_out = parts(TRAINING[:2], HELD_OUT[:1]) if quick else parts(TRAINING, HELD_OUT)
    print(f"{len(training.reactions)} reactions, {len(held_out.reactions)} held out")
    pbe = dftfd.get_functional("pbe")
    free = dftfd.fit(pbe, training, parameters=["kappa", "mu"], validation=held_out, on_step=tell, **OPTIONS)
    print(free)
    bounds = {"kappa": (0.1, 0.804)}
    bound = dftfd.fit(pbe, training, parameters=["kappa", "mu"], validation=held_out, bounds=bounds, **OPTIONS)
    print(bound)
    return free, bound


if __name__ == "__main__":
    main("--quick" in sys.argv)
