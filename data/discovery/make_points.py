"""Add the densities of make_densities.py to dftfd/discovery/points.npz: python data/discovery/make_points.py FOLDER

Reactions whose molecules are all there, in the file or in the folder. Compressed molecules are kept in FOLDER/points,
so that it can be run again while densities come in. Roles are fixed by the seed over all reactions, whichever are
there.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from known_functionals import FUNCTIONALS, score
from make_densities import whole_set

from dftfd.discovery import compression
from dftfd.discovery.compression import Ingredients
from dftfd.discovery.points import SHIPPED, TrainingPoints
from dftfd.libcint.mole import HARTREE_IN_KCAL

SEED = 20261128
VALIDATION = 0.25
"""Share of the reactions that are not held out."""

REFERENCES = "PBE", "revPBE", "r2SCAN"

NOT_IN_W4_11 = """
allyl benzene beta-lactim borole c2cl2 c2cl4 c2cl6 c2clh c2clh3 c2clh5 c2f4 c2f6 ccl2h2 ccl2o ccl3h ccl4 cclh3 cf2cl2
ch2clf ch3ph2 chf3 cis-c2f2cl2 clcof clno cyclobutadiene cyclobutane cyclobutene cyclopentadiene cyclopropane
cyclopropene cyclopropyl dioxetan2one dioxetane dithiotane fno formamide formic-anhydride furan h2ccn h2no hclo4 hoclo
hoclo2 n-butane n-pentane n2o4 nh2f nh2oh oxadiazole oxetane pf3 pf5 pyrrole sf6 silole t-butadiene tetrahedrane
thiophene trans-c2f2cl2
""".split()
"""Atomisation energies of W4-17 that W4-11 does not have."""

MIXED, LEAST = "mixed", 0.2
"""The set with all kinds of reactions; the least mean error of a subset [kcal/mol], for its weight."""


def roles(reactions) -> list[str]:
    """Half of W4-11 held out, of the others a quarter for validation, by SEED."""
    rng = np.random.default_rng(SEED)
    found = ["training"] * len(reactions)
    w4_11 = [k for k, r in enumerate(reactions) if r.subset == "W4-17" and r.name not in NOT_IN_W4_11]
    for k in rng.permutation(w4_11)[: len(w4_11) // 2]:
        found[k] = "held out"
    rest = [k for k, role in enumerate(found) if role == "training"]
    # A24 and later the mixed set leave the roles of the others as they were
    group = lambda r: 2 if next(iter(r.stoichiometry))[0].startswith(f"{MIXED}/") else int(r.subset == "A24")
    for own in ([k for k in rest if group(reactions[k]) == number] for number in range(3)):
        for k in rng.permutation(own)[: round(VALIDATION * len(own))]:
            found[k] = "validation"
    return found


def weights(points) -> np.ndarray:
    """(reaction,): one over the square of the mean error of known functionals with D3(BJ) for its subset [kcal/mol].

    So errors count in units of theirs. Held-out reactions are not looked at.
    """
    seen = np.array([role != "held out" for role in points.role])
    errors = np.mean([np.abs(score(points.chosen(seen), *FUNCTIONALS[name]).errors) for name in REFERENCES], axis=0)
    own = np.array(points.subsets)
    return np.array([1 / max(LEAST, errors[own[seen] == subset].mean()) ** 2 for subset in own])


def compressed(folder, name):
    """(base energy, exchange, correlation) of a molecule, from the file where it was made before."""
    file = folder / "points" / f"{name.replace('/', '__')}.npz"
    if not file.exists():
        d = np.load(folder / file.name)
        density = Ingredients(d["weights"], d["rho"], d["sigma"], d["tau"])
        x = compression.compressed(compression.exchange_measure(density))
        c = compression.compressed(compression.correlation_measure(density))
        np.savez(file, base=d["base"], x=x.weights, xv=x.variables, c=c.weights, cv=c.variables)
        print(name, len(x.weights), len(c.weights), flush=True)
    d = np.load(file)
    return float(d["base"]), d["x"], d["xv"], d["c"], d["cv"]


def kept(points, name):
    """The same, of a molecule of training points."""
    k = points.molecules.index(name)
    x, c = (slice(*offsets[k : k + 2]) for offsets in (points.x_offsets, points.c_offsets))
    x_variables, c_variables = (np.stack(v) for v in (
        (points.x_s2, points.x_alpha), (points.c_rs, points.c_zeta, points.c_s2, points.c_alpha)))  # fmt: skip
    return float(points.base[k]), points.x_weight[x], x_variables[:, x], points.c_weight[c], c_variables[:, c]


def main(folder, output=SHIPPED):
    (folder / "points").mkdir(exist_ok=True)
    names = json.loads((folder / "names.json").read_text())
    found, earlier = whole_set(), TrainingPoints.read()
    role = roles(found.reactions)
    there = lambda name: names[name] in earlier.molecules or (folder / f"{names[name].replace('/', '__')}.npz").exists()
    rows = [k for k, r in enumerate(found.reactions) if all(there(name) for name, _ in r.stoichiometry)]
    reactions = [found.reactions[k] for k in rows]
    molecules = list(dict.fromkeys(names[name] for r in reactions for name, _ in r.stoichiometry))
    stoichiometry = np.zeros((len(rows), len(molecules)))
    for i, r in enumerate(reactions):
        for name, coefficient in r.stoichiometry:
            stoichiometry[i, molecules.index(names[name])] += coefficient
    base, x, xv, c, cv = zip(
        *(kept(earlier, name) if name in earlier.molecules else compressed(folder, name) for name in molecules),
        strict=True,
    )
    offsets = lambda parts: np.cumsum([0, *map(len, parts)])
    x_s2, x_alpha = np.concatenate(xv, axis=1)
    c_rs, c_zeta, c_s2, c_alpha = np.concatenate(cv, axis=1)
    points = TrainingPoints(
        molecules=tuple(molecules),
        base=np.array(base),
        x_offsets=offsets(x),
        x_weight=np.concatenate(x),
        x_s2=x_s2,
        x_alpha=x_alpha,
        c_offsets=offsets(c),
        c_weight=np.concatenate(c),
        c_rs=c_rs,
        c_zeta=c_zeta,
        c_s2=c_s2,
        c_alpha=c_alpha,
        stoichiometry=stoichiometry,
        reference=np.array([r.reference for r in reactions]) / HARTREE_IN_KCAL,
        reaction_weight=np.ones(len(rows)),
        reaction_names=tuple(f"{r.subset}/{r.name}" for r in reactions),
        subsets=tuple(r.subset for r in reactions),
        role=tuple(role[k] for k in rows),
    )
    points = replace(points, reaction_weight=np.round(weights(points), 4)).checked()
    points.write(output)
    counts = {name: points.role.count(name) for name in set(role)}
    print(len(rows), "of", len(found.reactions), "reactions,", len(molecules), "molecules,", counts)
    print(len(points.x_weight), len(points.c_weight), "points,", output.stat().st_size, "bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(Path, sys.argv[2:3]))
