"""Every parser on arbitrary text: it understands it, or raises one of dftfd's own errors; nothing else.

Forty cases each; the slow suite takes two thousand.
"""

import json
import warnings

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dftfd.elements import AtomName, parse_atom_name
from dftfd.errors import DftfdError, InputWarning
from dftfd.functionals.names import parse
from dftfd.results.qcschema import read_input
from dftfd.results.result_file import load_result
from dftfd.runtime.documents import BLOCK, read_tree, seal
from dftfd.runtime.memory import memory_size
from dftfd.system.basis import checked_basis
from dftfd.system.geometry import parse_atom_list, parse_geometry, split_frames
from dftfd.system.molecule import molecule

WORDS = st.sampled_from(
    "H O He Xx gh ghost-H H1 0 1 -1.5 .7 1e-3 1d400 nan inf ; , # \n * + - ( ) 0.25*HF pbe b3lyp lda,vwn hf , lyp "
    "sr_hf(0.3) rsh(0.2;1;0.3) libxc:gga_x_pbe lattice= properties=species:S:1:pos:R:3 ../x __import__ \x00 \u0661 "
    "def2-svp 6-31g** MB GB 4".split(" ")
)
TEXT = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=14).map(" ".join))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
VALUES = st.recursive(LEAVES, lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(TEXT, v, max_size=4)))
NAMES = st.sampled_from("molecule driver model keywords symbols geometry real molecular_charge method basis".split())
DOCUMENTS = st.dictionaries(NAMES, st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=4)), max_size=6)
FUZZ = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


def only_own_errors(code, *arguments):
    """Run; any other exception than dftfd's goes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            code(*arguments)
        except DftfdError as error:
            assert str(error) and "\n" not in str(error)


def edited(example, data):
    """A good file's bytes, with a few stretches replaced, and sealed again."""
    content = bytearray(example[BLOCK:])
    for start, replacement in data:
        content[start % len(content) : start % len(content) + len(replacement)] = replacement
    return seal(bytes(content)) + bytes(content)


PARSERS = {
    "geometry": (TEXT, parse_geometry),
    "frames": (TEXT, split_frames),
    "atoms": (VALUES.map(lambda v: v if isinstance(v, list) else [v]), parse_atom_list),
    "molecule": (TEXT.map(lambda text: text + ";"), lambda text: molecule(text, basis="sto-3g")),
    "element": (TEXT, lambda text: parse_atom_name(text, "atom 1")),
    "functional": (TEXT, parse),
    "basis": (VALUES, lambda value: checked_basis(value, AtomName("H", False, "H"))),
    "memory": (VALUES, memory_size),
}


def fuzz(count, strategy, code):
    """`count` cases of a strategy."""
    settings(max_examples=count, **FUZZ)(given(strategy)(lambda case: only_own_errors(code, case)))()


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.one_in(2)
def test_text(name, count):
    """Coordinates, trajectories, names of atoms, functionals and basis sets, sizes of memory."""
    fuzz(count, *PARSERS[name])


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_documents(count, tmp_path):
    """QCSchema input: JSON of the right and of wrong shapes, and text that is no JSON."""
    path = tmp_path / "input.json"

    def read(content):
        path.write_text(content, encoding="utf-8", errors="surrogatepass")
        read_input(path)

    fuzz(count, st.one_of(TEXT, DOCUMENTS.map(json.dumps), VALUES.map(json.dumps)), read)


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_files(count, tmp_path):
    """HDF5 with a right seal around bytes that were written over, and files of anything at all."""
    good, path = tmp_path / "good.h5", tmp_path / "bad.h5"
    with h5py.File(good, "w", userblock_size=BLOCK, libver=("earliest", "v110")) as file:
        file["dftfd/text"] = np.bytes_("{}")
        file["dftfd/arrays/x"] = np.arange(6.0).reshape(2, 3)
        file["dftfd/format"] = 2
    example = good.read_bytes()

    def read(content):
        path.write_bytes(content)
        only_own_errors(read_tree, path)
        load_result(path)

    edits = st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=8)), max_size=4)
    fuzz(count, st.one_of(st.binary(max_size=600), edits.map(lambda data: edited(example, data))), read)
