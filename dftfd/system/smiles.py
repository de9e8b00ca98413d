"""Molecules from SMILES, 'smiles:CCO', by RDKit, which is an extra: hydrogens added, a conformer embedded and relaxed.

The positions are those of a force field (MMFF94, else UFF) after embedding by distance geometry with a fixed seed
(ETKDG; S. Riniker, G. A. Landrum, J. Chem. Inf. Model. 55, 2562 (2015), doi:10.1021/acs.jcim.5b00654): a start for an
optimisation, not a result.
"""

import re
import warnings
from typing import Any, cast

from dftfd.errors import InputError, InputWarning, MissingDependencyError, odd_character, shown
from dftfd.system.comment_line import said_in
from dftfd.system.molfile import warn_of_isotopes

PREFIX = "smiles:"
SEED = 20150914
_LONGEST, MAX_ATOMS = 2000, 250
"""Characters, and atoms with hydrogens: embedding takes time as the third power of their number."""


def is_smiles(source: str) -> bool:
    """True for text that begins with 'smiles:'."""
    return source[: len(PREFIX)].lower() == PREFIX


def atoms_of_smiles(source: str) -> tuple[list[tuple[str, tuple[float, float, float]]], int, int]:
    """(atoms (symbol, (x, y, z)) [angstrom], charge, unpaired electrons) of 'smiles:CCO'.

    Raises MissingDependencyError without RDKit, InputError for what is no SMILES or has no three-dimensional form.
    """
    text = source[len(PREFIX) :].strip()
    try:
        from rdkit import Chem, RDLogger
        from rdkit.Chem import AllChem
    except ImportError as error:
        raise MissingDependencyError("reading SMILES needs RDKit: pip install 'dftfd[smiles]'.") from error
    if not text or len(text) > _LONGEST or len(text.splitlines()) > 1:
        raise InputError(f"{shown(source)}: one molecule expected after smiles:, as in 'smiles:CCO'.")
    if not (written := text.split()[0]).isascii():  # RDKit leaves out what it does not know
        raise InputError(f"{shown(source)} is no SMILES{odd_character(written)}.")
    chem, fields, logger = (cast(Any, module) for module in (Chem, AllChem, RDLogger))
    logger.DisableLog("rdApp.*")  # it writes to standard error what is said below
    try:
        read = chem.MolFromSmiles(text)
        if read is None:
            raise InputError(f"{shown(source)} is not a SMILES string that RDKit can read; 'smiles:CCO' is ethanol.")
        _refuse_what_has_no_form(chem, read, shown(source))
        _tell_what_is_open(chem, read, text)
        whole = chem.AddHs(read)
        if whole.GetNumAtoms() > MAX_ATOMS:
            raise InputError(
                f"{shown(source)} has {whole.GetNumAtoms()} atoms; SMILES of up to {MAX_ATOMS} are embedded, for more "
                "give coordinates."
            )
        if fields.EmbedMolecule(whole, randomSeed=SEED) != 0:
            raise InputError(f"{shown(source)}: RDKit finds no three-dimensional form; give coordinates.")
        _relax(fields, whole)
    finally:
        logger.EnableLog("rdApp.*")
    places = whole.GetConformer().GetPositions()
    symbols = [atom.GetSymbol() for atom in whole.GetAtoms()]
    atoms = [(symbol, (float(x), float(y), float(z))) for symbol, (x, y, z) in zip(symbols, places, strict=True)]
    radicals = sum(atom.GetNumRadicalElectrons() for atom in whole.GetAtoms())
    return atoms, chem.GetFormalCharge(whole), radicals


def _refuse_what_has_no_form(chem, read, source):
    """InputError for atoms and bonds that are not said, and for several molecules, which no force field puts apart.

    RDKit embeds unconnected parts on top of each other.
    """
    if any(atom.GetAtomicNum() == 0 for atom in read.GetAtoms()):
        raise InputError(f"{source} has an atom of no element, as '*' or 'R'; write the element.")
    vague = chem.BondType.UNSPECIFIED, chem.BondType.ZERO
    if any(bond.HasQuery() or bond.GetBondType() in vague for bond in read.GetBonds()):
        raise InputError(f"{source} has a bond of no kind, as '~'; write -, =, # or : for it.")
    if len(parts := chem.GetMolFrags(read)) > 1:
        raise InputError(
            f"{source} is made of {len(parts)} molecules or ions, whose relative positions SMILES do not define; "
            "give coordinates, or each on its own."
        )


def _tell_what_is_open(chem, read, text):
    """Warn of isotopes, which are left out, and of what SMILES leave open; InputError for a charge behind them."""
    name = re.sub(r"\|[^|]*\|", " ", text.partition(" ")[2])
    told = said_in(name, shown(text))
    if said := [f"{word}={told[word]}" for word in ("charge", "spin") if word in told]:
        raise InputError(f"{shown(text)}: {said[0]} after SMILES is not read; give it as an option, charge= or spin=.")
    electrons = {"charge": chem.GetFormalCharge(read), "spin": sum(a.GetNumRadicalElectrons() for a in read.GetAtoms())}
    for about in (name for name in told["mentions"] if not electrons[name]):
        _warn(
            f"{shown(text)} says {shown(told['mentions'][about])}, but the SMILES have no {about}; give it as option."
        )
    if "^" in text.partition("|")[2] and not electrons["spin"]:
        raise InputError(f"{shown(text)}: RDKit ignores radicals given after SMILES; give spin= as an option.")
    if any(atom.GetIsotope() for atom in read.GetAtoms()):
        warn_of_isotopes(shown(text))
    places = list(chem.FindPotentialStereo(read))
    atoms = [place for place in places if place.type == chem.StereoType.Atom_Tetrahedral]
    bonds = [place for place in places if place.type == chem.StereoType.Bond_Double]
    free = [p for p in (atoms if len(atoms) > 1 else []) + bonds if p.specified == chem.StereoSpecified.Unspecified]
    if free:
        _warn(
            f"{shown(text)} leaves open which of several isomers is meant, at {len(free)} double bonds or centres: one "
            "is taken; write F/C=C/F or F/C=C\\F, [C@H] or [C@@H]."
        )


def _warn(text):
    warnings.warn(text, InputWarning, stacklevel=7)


def _relax(fields, whole):
    """To the minimum of a force field that has the atoms; what none has stays as embedded."""
    if whole.GetNumAtoms() < 2:
        return
    if fields.MMFFHasAllMoleculeParams(whole):
        fields.MMFFOptimizeMolecule(whole, maxIters=2000)
    elif fields.UFFHasAllMoleculeParams(whole):
        fields.UFFOptimizeMolecule(whole, maxIters=2000)
