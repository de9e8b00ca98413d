"""Make the sets of dftfd/benchmarks/shipped from a copy of GSCDB: python data/benchmark_sets/make_sets.py PATH DIET

DIET: a copy of DietGMTKN55 and of GMTKN55, whose diet-150 shares no reaction with the set "mixed".
Reactions, references, geometries and Q-Chem's total energies are GSCDB's (CC BY 4.0); chosen, converted to kcal/mol and
written in dftfd's form. Reactions whose sign is that of a binding energy are left as they are.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from dftfd.benchmarks import read_set
from dftfd.benchmarks.gscdb import read_gscdb, read_totals
from dftfd.benchmarks.reactions import Subset, composition, document_of
from dftfd.discovery.scores import without_reactions
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.system.molecule import molecule

HERE = Path(__file__).parents[2] / "dftfd" / "benchmarks" / "shipped"
PUBLISHED = ("b3lyp", "pbe0", "camb3lyp", "m062x", "wb97x-v", "wb97m-v")
LICENCE = "J. Liang, M. Head-Gordon, GSCDB137, arXiv:2508.13468, https://github.com/JiashuLiang/GSCDB, CC BY 4.0"
SETS = {
    "w4-17": (
        "TAE_W4-17nonMR",
        "atomisation energies",
        "A. Karton et al., J. Comput. Chem. 38, 2063 (2017), doi:10.1002/jcc.24854",
    ),
    "bh46": (
        "BH46",
        "barrier heights",
        "W2-F12 energies of BH76: L. Goerigk et al., doi:10.1039/C7CP04913G; Y. Zhao et al., doi:10.1021/jp045141s",
    ),
    "dbh22": (
        "DBH22",
        "barrier heights",
        "W4 energies: A. Karton et al., doi:10.1021/jp801805p; J. Zheng et al., doi:10.1021/ct600281g",
    ),
    "s22": (
        "S22",
        "noncovalent interactions",
        "P. Jurecka et al., doi:10.1039/b600027d; M. S. Marshall et al., doi:10.1063/1.3659142",
    ),
    "a24": ("A24", "noncovalent interactions", "J. Rezac, P. Hobza, doi:10.1021/ct400057w"),
    "g21ip": ("G21IP", "ionisation energies", "L. A. Curtiss et al., doi:10.1063/1.460205; W3 values of GSCDB"),
    "g21ea": ("G21EA", "electron affinities", "L. A. Curtiss et al., doi:10.1063/1.460205; W3 values of GSCDB"),
}
BASIS = {"g21ea": "def2-tzvppd", "g21ip": "def2-tzvppd"}

AE6 = "sih4 sio s2 propyne glyoxal cyclobutane"


def with_published(found, totals):
    """Each reaction with what Q-Chem's total energies give for it."""
    reactions = []
    for reaction in found.reactions:
        published = {
            xc: round(HARTREE_IN_KCAL * sum(c * energies[name] for name, c in reaction.stoichiometry), 4)
            for xc, energies in totals.items()
            if all(name in energies for name, _ in reaction.stoichiometry)
        }
        reactions.append(replace(reaction, reference=round(reaction.reference, 4), published=published))
    return replace(found, reactions=tuple(reactions))


def written(name, found):
    document = document_of(found)
    molecules, reactions = document.pop("molecules"), document.pop("reactions")
    head = json.dumps(document, indent=1, ensure_ascii=False)[:-2]
    rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in molecules.items())
    lines = ",\n".join(f"  {json.dumps(value)}" for value in reactions)
    text = f'{head},\n "molecules": {{\n{rows}\n }},\n "reactions": [\n{lines}\n ]\n}}\n'
    assert json.loads(text)["reactions"] == reactions
    (HERE / f"{name}.json").write_text(text)


def renamed(found, subset, kind, source):
    short = lambda name: name.split("_", 1)[1] if name.startswith(("W4-17_", "S22_", "G21")) else name
    names = {name: short(name) for name in found.species}
    species = {names[key]: replace(value, name=names[key], basis=None) for key, value in found.species.items()}
    assert len(species) == len(found.species)
    reactions = []
    for reaction in found.reactions:
        own = [name for name, c in reaction.stoichiometry if c < 0]
        label = names[own[0]] if kind == "atomisation energies" else reaction.name
        if subset in ("G21IP", "G21EA"):  # one molecule that loses an electron; its sum formula
            neutral = next(
                one for key, one in found.species.items() if dict(reaction.stoichiometry).get(key) and not one.charge
            )
            label = molecule(neutral.atoms, "sto-3g", 0, neutral.spin).formula
        pairs = tuple((names[name], c) for name, c in reaction.stoichiometry)
        reactions.append(replace(reaction, name=label, subset=subset, stoichiometry=pairs))
    described = {subset: Subset(subset, kind, source)}
    return replace(found, name=subset, species=species, reactions=tuple(reactions), subsets=described)


EACH, ATOMS, FUNCTIONS, SEED = 3, 12, 400, 20261130
"""Of the set "mixed": reactions of a subset, atoms and functions (def2-QZVP) of a molecule at most."""
NOT_MIXED = {"AE18", "V30", "RG10N", "He3"}
"""Total energies of atoms, and energies along curves."""


def main(path, diet):
    totals = {xc: read_totals(path, xc) for xc in PUBLISHED}
    made = {}
    for name, (subset, kind, source) in SETS.items():
        found = with_published(read_gscdb(path, (subset,)), totals)
        title = "W4-17" if name == "w4-17" else subset
        found = renamed(found, title, kind, source)
        found = replace(found, source=LICENCE, basis=BASIS.get(name), title=f"{title}: {kind}")
        made[name] = found
        written(name, found)
    quick(made)
    mixed(path, diet, totals, made)


def quick(made):
    """Six reactions of each class, small molecules: half a minute each in a triple-zeta basis at most."""
    chosen = {
        "w4-17": AE6.split(),
        "dbh22": [f"DBH24_{k}" for k in (10, 22, 11, 23, 12, 24)],
        "a24": ["A24_1", "A24_2", "A24_4", "A24_6", "A24_8", "A24_12"],
        "g21ip": "H2O CO N2 H3P Cl2 C2H4".split(),
        "g21ea": "HO H2N H2P HS CN S2".split(),
    }
    species, reactions, subsets = {}, [], {}
    for name, labels in chosen.items():
        found = made[name]
        kept = found.of(r for r in found.reactions if r.name in labels)
        assert len(kept.reactions) == len(labels), (name, {r.name for r in kept.reactions} ^ set(labels))
        title = found.reactions[0].subset
        for label, one in kept.species.items():
            species[f"{title}/{label}"] = replace(one, name=f"{title}/{label}")
        for r in kept.reactions:
            pairs = tuple((f"{title}/{label}", c) for label, c in r.stoichiometry)
            reactions.append(replace(r, stoichiometry=pairs))
        subsets |= found.subsets
    whole = replace(
        made["w4-17"],
        name="quick",
        title="Six reactions of each of five kinds, for a first look",
        species=species,
        reactions=tuple(reactions),
        subsets=subsets,
        basis="def2-tzvpd",
    )
    written("quick", whole)


def mixed(path, diet, totals, made):
    """Some reactions of each subset of GSCDB137 at random: small molecules, no anions, none of the other sets."""
    found = read_gscdb(path)
    for other in (*made.values(), read_set("diet:150", diet)):
        found = without_reactions(found, other)
    small = {}

    def is_small(label):
        one = found.species[label]
        if label not in small:
            atoms = composition(one)
            small[label] = isinstance(atoms, dict) and one.charge >= 0 and sum(atoms.values()) <= ATOMS
            small[label] &= small[label] and molecule(one.atoms, "def2-qzvp", one.charge, one.spin).n_ao <= FUNCTIONS
        return small[label]

    rng, kept = np.random.default_rng(SEED), []
    for subset in sorted({r.subset for r in found.reactions} - NOT_MIXED):
        own = [r for r in found.reactions if r.subset == subset and all(is_small(one) for one, _ in r.stoichiometry)]
        # other distances of the same molecules are one reaction
        chosen = found.of([])
        for k in rng.permutation(len(own)):
            if len(chosen.reactions) < EACH and without_reactions(found.of([own[k]]), chosen).reactions:
                chosen = found.of([*chosen.reactions, own[k]])
        kept += sorted(chosen.reactions, key=lambda r: own.index(r))
    found = with_published(found.of(kept), totals)
    species = {label: replace(one, basis=None) for label, one in found.species.items()}
    described = {r.subset: found.subsets[r.subset] for r in found.reactions}
    title = "Reactions of all kinds between small molecules, at most three of a subset"
    found = replace(found, name="mixed", title=title, species=species, subsets=described, source=LICENCE)
    print(len(found.reactions), "reactions,", len(species), "molecules,", len(described), "subsets")
    written("mixed", found)


if __name__ == "__main__":
    main(*sys.argv[1:3])
