"""Files and names made to run code, to leave their folder, or to take all time and memory: each is refused.

No case executes anything, takes 2 seconds of CPU or a gigabyte of memory; the command says why in one line and ends
with the code of bad input or of a bad file.
"""

import gzip
import json
import os
import pickle
import resource
import time
import zipfile

import h5py
import numpy as np
import pytest

import dftfd
import dftfd.cli.commands  # the limit of time begins when everything is imported
from dftfd.cli import main
from dftfd.errors import FileError
from dftfd.runtime.documents import BLOCK, seal
from dftfd.tasks.optimization import read_trajectory
from tests.sample import sample

SECONDS, BYTES = 2.0, 10**9
CODE = "__import__('pathlib').Path('executed').touch()"
HELIUM = "He 0 0 0;"
CASES = {}


def case(make):
    """Decorator: make(folder) gives the arguments of `dftfd run` that go with a file it has written, or with none."""
    CASES[make.__name__] = make
    return make


def written(path, content):
    """The path of a file with this content, as an argument."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


# ------------------------------------------------------------------------------------------------------------ geometry


@case
def code_for_a_coordinate(folder):
    return [written(folder / "a.xyz", f"1\n\nHe 0 0 {CODE}\n")]


@case
def code_for_a_name(folder):
    return [f"{CODE} 0 0 0;"]


@case
def shell_in_a_comment_and_a_name(folder):
    return [written(folder / "a.xyz", "1\n$(touch executed)\n`touch executed` 0 0 0\n")]


@case
def a_billion_atoms_announced(folder):
    return [written(folder / "a.xyz", "1000000000\n\nHe 0 0 0\n")]


@case
def a_line_of_ten_megabytes(folder):
    return [written(folder / "a.xyz", "1\n\nHe 0 0 " + "9" * 10**7 + "\n")]


@case
def a_million_semicolons(folder):
    return [written(folder / "a.xyz", ";" * 10**6)]


@case
def half_a_million_atoms_on_one_place(folder):
    return [written(folder / "a.xyz", "500000\n\n" + "He 0 0 0\n" * 500_000)]


@case
def a_hundred_megabytes(folder):
    with open(folder / "a.xyz", "wb") as file:
        file.truncate(10**8)
    return [str(folder / "a.xyz")]


@case
def bytes_that_are_no_text(folder):
    return [written(folder / "a.xyz", bytes(range(256)) * 100)]


@case
def digits_of_other_scripts(folder):
    return [written(folder / "a.xyz", "1\n\nHe ١ ٢ 0x10\n")]


@case
def numbers_beyond_all_bounds(folder):
    return ["H 0 0 0; H 0 0 1e400"]


@case
def an_endless_device(folder):
    return ["/dev/zero"]


@case
def a_pipe_that_nobody_fills(folder):
    os.mkfifo(folder / "a.xyz")
    return [str(folder / "a.xyz")]


@case
def a_link_to_itself(folder):
    (folder / "a.xyz").symlink_to(folder / "a.xyz")
    return [str(folder / "a.xyz")]


@case
def a_terminal_sequence_in_a_name(folder):
    return ["\x1b]0;owned\x07 0 0 0;"]


# -------------------------------------------------------------------------------------------------- options and names


@case
def code_for_a_functional(folder):
    return [HELIUM, "--xc", f"{CODE}*pbe"]


@case
def a_functional_in_another_folder(folder):
    return [HELIUM, "--xc", "../../../../etc/passwd"]


@case
def a_functional_of_a_million_brackets(folder):
    return [HELIUM, "--xc", "(" * 10**6]


@case
def a_functional_that_makes_patterns_backtrack(folder):
    return [HELIUM, "--xc", "1" * 400 + "." + "1" * 400 + "e"]


@case
def a_basis_set_in_another_folder(folder):
    return [HELIUM, "--basis", written(folder / "basis.py", f"{CODE}\n")]


@case
def a_basis_set_of_the_system(folder):
    return [HELIUM, "--basis", "../../../../etc/passwd"]


@case
def a_guess_from_a_device(folder):
    return [HELIUM, "--guess", "/dev/zero"]


@case
def a_size_that_is_a_pattern(folder):
    return [HELIUM, "--max-memory", "9" * 10**5 + " GB"]


# --------------------------------------------------------------------------------------------------------------- JSON


def document(**fields):
    """A QCSchema input with some fields replaced."""
    molecule = {"symbols": ["He"], "geometry": [0.0, 0.0, 0.0]}
    model = {"method": "lda,vwn", "basis": "sto-3g"}
    return {"molecule": molecule, "driver": "energy", "model": model, "keywords": {}} | fields


@case
def json_nested_a_hundred_thousand_times(folder):
    return [written(folder / "a.json", "[" * 100_000)]


@case
def json_with_an_endless_number(folder):
    return [written(folder / "a.json", '{"molecule": ' + "1" * 10**6 + "}")]


@case
def json_that_names_a_file_to_write(folder):
    return [written(folder / "a.json", json.dumps(document(keywords={"checkpoint": str(folder / "executed")})))]


@case
def json_with_code_for_keywords(folder):
    return [written(folder / "a.json", json.dumps(document(keywords={"grid_level": CODE, "__class__": CODE})))]


@case
def json_with_a_million_atoms(folder):
    many = {"symbols": ["He"] * 10**5, "geometry": [0.0] * (3 * 10**5)}
    return [written(folder / "a.json", json.dumps(document(molecule=many)))]


# --------------------------------------------------------------------------------------------------------- checkpoints


def sealed(path, content):
    """A file with a right seal, whatever it holds."""
    return [HELIUM, "--restart", written(path, seal(content) + content)]


def checkpoint(folder, change):
    """A checkpoint that change(file) has worked on, with a right seal."""
    path = folder / "a.chk"
    dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), xc="lda,vwn", grid_level=0, checkpoint=path)
    path.with_name("a.chk.previous").unlink()
    with h5py.File(path, "a") as file:
        change(file)
    arguments = sealed(path, path.read_bytes()[BLOCK:])
    return [*arguments, "--xc", "lda,vwn", "--basis", "sto-3g", "--grid-level", "0"]


def replaced(name, value):
    """A change of one entry."""

    def change(file):
        if name in file:
            del file[name]
        file[name] = np.bytes_(value) if isinstance(value, str) else value

    return change


@case
def a_pickle_for_a_checkpoint(folder):
    class Executed:
        def __reduce__(self):
            return open, ("executed", "w")

    return [HELIUM, "--restart", written(folder / "a.chk", pickle.dumps(Executed()))]


@case
def a_bomb_of_gzip(folder):
    return [HELIUM, "--restart", written(folder / "a.chk", gzip.compress(bytes(10**8)))]


@case
def an_archive_that_leaves_its_folder(folder):
    with zipfile.ZipFile(folder / "a.chk", "w") as archive:
        archive.writestr("../executed", "")
    return [HELIUM, "--restart", str(folder / "a.chk")]


@case
def a_sealed_file_of_noise(folder):
    return sealed(folder / "a.chk", np.random.default_rng(1).bytes(10**5))


@case
def a_checkpoint_on_a_device(folder):
    return [HELIUM, "--restart", "/dev/zero"]


@case
def a_checkpoint_in_a_pipe(folder):
    os.mkfifo(folder / "a.chk")
    return [HELIUM, "--restart", str(folder / "a.chk")]


@case
def an_array_in_another_file(folder):
    return checkpoint(folder, replaced("dftfd/arrays/mo_occ", h5py.ExternalLink("/etc/passwd", "/x")))


@case
def an_array_stored_in_another_file(folder):
    def change(file):
        del file["dftfd/arrays/mo_occ"]
        file.create_dataset("dftfd/arrays/mo_occ", (1, 1), float, external=[("/etc/passwd", 0, 8)])

    return checkpoint(folder, change)


@case
def an_array_of_four_terabytes(folder):
    return checkpoint(folder, lambda file: file.create_dataset("dftfd/arrays/huge", (2**39,), float))


@case
def an_array_that_inflates(folder):
    def change(file):
        zeros = np.zeros((1, 10**7))
        file.create_dataset("dftfd/loop/memory/errors_", data=zeros, chunks=zeros.shape, compression="gzip")

    return checkpoint(folder, change)


@case
def groups_that_hold_themselves(folder):
    return checkpoint(folder, replaced("dftfd/arrays/again", h5py.SoftLink("/dftfd")))


@case
def a_pickle_in_a_checkpoint(folder):
    return checkpoint(folder, replaced("dftfd/arrays/mo_occ", np.void(pickle.dumps({}))))


@case
def code_in_a_checkpoint(folder):
    return checkpoint(folder, replaced("dftfd/text", CODE))


@case
def a_basis_set_of_a_checkpoint_in_another_folder(folder):
    def change(file):
        text = json.loads(file["dftfd/text"].asstr()[()])
        text["molecule"]["atom_basis"] = ["../../../../etc/passwd"]
        replaced("dftfd/text", json.dumps(text))(file)

    return checkpoint(folder, change)


@case
def json_in_a_checkpoint_nested_a_hundred_thousand_times(folder):
    return checkpoint(folder, replaced("dftfd/text", "[" * 100_000))


@case
def text_in_a_heap_whose_links_may_have_no_end(folder):
    def in_heap(file):
        del file["dftfd/text"]
        file["dftfd/text"] = "{}"  # of variable length, as h5py stores it

    return checkpoint(folder, in_heap)


@case
def matrices_of_another_size(folder):
    return checkpoint(folder, replaced("dftfd/loop/memory/focks", np.zeros((3, 1, 700, 700))))


@pytest.mark.parametrize("name", sample(CASES, [name for name in CASES if name != "json_with_a_million_atoms"]))
def test_hostile_input_is_refused(name, tmp_path, monkeypatch, capfd):
    """One line on standard error, exit code 2 or 5, in less than 2 s and 1 GB; nothing was executed or written."""
    monkeypatch.chdir(tmp_path)
    arguments = CASES[name](tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    seconds, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = main(["run", *arguments])
    seconds = time.process_time() - seconds
    memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
    err = capfd.readouterr().err
    assert code in (2, 5), err
    assert err.startswith("dftfd: error: ") and err.count("\n") == 1 and len(err) < 2000 and "\x1b" not in err
    assert seconds < SECONDS and memory < BYTES
    assert {path.name for path in tmp_path.iterdir()} == before and not (tmp_path.parent / "executed").exists()


def test_there_are_thirty():
    """The number that docs/reliability.md names, at least."""
    assert len(CASES) >= 30


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_trajectories_are_regular_files(name, tmp_path, monkeypatch):
    """A device without end and a pipe that nobody fills are refused as the path of an optimisation, too."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(FileError, match="not a regular file; expected a trajectory"):
        read_trajectory(name)
