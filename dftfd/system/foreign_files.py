"""What a text is that is no geometry: the input or output of another program, a format of structures that is not read.

Recognised by what such files begin with or always have. Nothing is read from them: their keywords decide what a line of
atoms means.
"""

import re

_READ = "an xyz file (number of atoms, a comment line such as 'charge=-1 multiplicity=2', lines 'El x y z' in angstrom)"
_ADVICE = f"write its atoms into {_READ}"

_KINDS = {
    "a saved result, or another binary file of HDF5": r"\A(?:dftfd sealed HDF5|.HDF\r\n)",
    "a JSON document": r"\A\s*(?:\{|\[\s*[{\[\"])",
    "an output of Gaussian": r"^ ?Entering Gaussian System|^ Gaussian, Inc\.",
    "an output of ORCA": r"^[ \t]*\* O   R   C   A \*",
    "an output of Psi4": r"^[ \t]*Psi4: An Open-Source",
    "a Gaussian cube file": r"\A[^\n]*\n[^\n]*\n *-?[0-9]+( +-?[0-9.]+){3,4} *\n( *-?[0-9]+( +-?[0-9.]+){3} *\n){3}",
    "a Molden file": r"\A\s*\[(?:molden format|atoms)\]",
    "a Molpro input": r"^[ \t]*geometry\s*=\s*\{",
    "a CP2K input": r"^[ \t]*&(?:global|force_eval|coord|motion|subsys)\b",
    "an input of ORCA": r"^[ \t]*![^\n]*|^[ \t]*\*\s*(?:xyz|xyzfile|int|gzmt)\b"
    r"|^[ \t]*%(?:pal|maxcore|scf|method|basis|coords|geom)\b",
    "an input of Gaussian": r"^[ \t]*%(?:chk|oldchk|rwf|mem|nproc\w*|cpu|gpucpu)\s*="
    r"|^[ \t]*#[^\n]*\n(?:[^\n]+\n){0,5}[ \t]*\n(?:[^\n]+\n){1,5}[ \t]*\n\s*[+-]?[0-9]+[\s,]+[0-9]+\s*\n",
    "an input of Q-Chem": r"^[ \t]*\$(?:molecule|rem)\b",
    "an input of GAMESS": r"^[ \t]*\$(?:contrl|data|basis|system)\b",
    "a coord file of Turbomole": r"^[ \t]*\$coord\b|^[ \t]*\$atoms\b",
    "an input of NWChem": r"^[ \t]*geometry\b[^\n={]*\n|^[ \t]*task\s+(?:scf|dft|mp2|ccsd)",
    "an input of Psi4": r"^[ \t]*molecule\s*\w*\s*\{|^[ \t]*set\s*\{|^[ \t]*set\s+\w+\s+\S+\s*$|\benergy\s*\(\s*['\"]",
    "an input of MOPAC": r"\A[^\n]*\b(?:pm[367]|am1|mndo|rm1)\b",
    "a PDB file": r"^(?:atom  |hetatm)\s*[0-9]+\s",
    "an input of FHI-aims": r"^[ \t]*(?:atom|atom_frac|lattice_vector)\s+-?[0-9.]",
    "an input of DALTON": r"\A\s*(?:basis|atombasis|intgrl)\s*\n",
    "an input of ADF": r"^[ \t]*(?:engine\s+\w+|atoms)\s*$(?=[\s\S]*^[ \t]*end\b)",
    "a geometry of DFTB+ (gen)": r"\A\s*[0-9]+\s+[cfs]\s*\n",
    "an xyz file of Tinker": r"\A\s*[0-9]+\s+[^\n]*\n\s*1\s+[a-z]+\S*\s+-?[0-9.]+\s+-?[0-9.]+\s+-?[0-9.]+\s+[0-9]+",
    "a file of XCrySDen": r"^[ \t]*(?:primvec|primcoord|convvec)\b",
    "a CIF file": r"^data_\S*\s*$|^_(?:atom_site|cell)_",
    "a mol2 file": r"^@<tripos>",
    "a file of CML or another XML": r"\A\s*<\?xml|\A\s*<(?:molecule|cml|html|!doctype)",
    "a structure of VASP": r"\A[^\n]*\n\s*-?[0-9.]+\s*\n(?:(?:\s+-?[0-9.]+){3}\s*\n){3}",
    "a program in Python": r"^[ \t]*(?:from\s+\w\S*\s+)?import\s+\w",
}
_PATTERNS = {name: re.compile(pattern, re.I | re.MULTILINE) for name, pattern in _KINDS.items()}
_CURES = {
    "a saved result, or another binary file of HDF5": "dftfd.load_result and `dftfd view` read saved results",
    "a JSON document": "`dftfd run` reads QCSchema inputs, whose name ends in .json",
}
_LONGEST = 8_000


def foreign_format(text: str) -> str:
    """'it looks like an input of ORCA; ...' with what to do; empty for a text that looks like nothing known."""
    beginning = text[:_LONGEST]
    kind = next((name for name, pattern in _PATTERNS.items() if pattern.search(beginning)), None)
    return "" if kind is None else f"it looks like {kind}; {_CURES.get(kind, _ADVICE)}"
