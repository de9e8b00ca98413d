"""Molecules from SMILES, 'smiles:CCO', by RDKit, which is an extra: hydrogens added, a conformer embedded and relaxed.

The positions are those of a force field (MMFF94, else UFF) after embedding by distance geometry with a fixed seed
(ETKDG; S. Riniker, G. A. Landrum, J. Chem. Inf. Model. 55, 2562 (2015), doi:10.1021/acs.jcim.5b00654): a start for an
optimisation, not a result.
"""

from typing import Any, cast

from dftfd.errors import InputError, MissingDependencyError, shown

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
    if not text or len(text) > _LONGEST:
        raise InputError(f"{shown(source)}: a molecule expected after smiles:, as in 'smiles:CCO'.")
    chem, fields, logger = (cast(Any, module) for module in (Chem, AllChem, RDLogger))
    logger.DisableLog("rdApp.*")  # it writes to standard error what is said below
    try:
        read = chem.MolFromSmiles(text)
        if read is None:
            raise InputError(f"{shown(source)} is no SMILES that RDKit reads; 'smiles:CCO' is ethanol.")
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


def _relax(fields, whole):
    """To the minimum of a force field that has the atoms; what none has stays as embedded."""
    if whole.GetNumAtoms() < 2:
        return
    if fields.MMFFHasAllMoleculeParams(whole):
        fields.MMFFOptimizeMolecule(whole, maxIters=2000)
    elif fields.UFFHasAllMoleculeParams(whole):
        fields.UFFOptimizeMolecule(whole, maxIters=2000)
