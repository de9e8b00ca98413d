"""Coverage-guided fuzz of one parser with atheris (pip install atheris): errors of dftfd only.

    python examples/faults/parsers.py geometry -max_total_time=180

Atheris begins with good inputs and changes bytes so that new branches of the parser are reached. Options are
libFuzzer's; the exit code is not 0 if an exception that is not dftfd's came out, and the bytes that did it are kept in
a file crash-*.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import atheris
import numpy as np

READ = ["elements", "functionals.names", "results", "runtime", "system"]
with atheris.instrument_imports(include=[f"dftfd.{name}" for name in READ]):
    import dftfd
    from dftfd.elements import AtomName, parse_atom_name
    from dftfd.functionals.names import parse
    from dftfd.results.qcschema import read_input
    from dftfd.runtime.documents import BLOCK, read_tree, seal, write_tree
    from dftfd.runtime.memory import memory_size
    from dftfd.system.basis import checked_basis
    from dftfd.system.geometry import parse_atom_list, parse_geometry, split_frames

PLACE = Path(tempfile.mkdtemp(prefix="dftfd-fuzz-"))
WORDS = (
    "H He Xx gh ghost-H H1 nan inf 1e999 ; , # \\x0a * + - ( ) 0.25*HF pbe b3lyp hf lyp sr_hf(0.3) rsh(0.2;1;0.3) "
    "libxc: lattice= properties=species:S:1:pos:R:3 molecule schema_name qcschema_input symbols geometry real driver "
    "energy model method basis keywords null true def2-svp 6-31g** MB GB"
).split()
"""What random changes may insert besides bytes."""


def value(text):
    """JSON where the text is that, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def document(text):
    path = PLACE / "input.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    read_input(path)


def file(content):
    path = PLACE / "tree.h5"
    path.write_bytes(seal(content) + content)
    read_tree(path)


def good_file():
    """A tree of a number, text and an array, without its seal."""
    path = PLACE / "good.h5"
    write_tree(path, {"a": {"number": 1.5, "text": "{}"}, "array": np.arange(6.0).reshape(2, 3)})
    return path.read_bytes()[BLOCK:]


SEEDS = {
    "geometry": ["O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24", "H\nF 1 0.9", "O\nH 1 0.96\nH 1 0.96 2 104.5", "Gh-O 0,0,0"],
    "frames": ["2\nfirst\nH 0 0 0\nH 0 0 0.74\n" * 2, '1\nLattice="1 0 0 0 1 0 0 0 1" pbc="T T T"\nHe 0 0 0\n'],
    "atoms": ['[["H", [0, 0, 0]], ["H", 0, 0, 0.74]]', '[{"symbol": "He"}]', '["H 0 0 0"]'],
    "molecule": ["O@1 0 0 0; H1 0 0 0.96; ghost-H 0 0.93 -0.24"],
    "element": ["ghost-O", "gh.c1", "H@2", "26", "Cl_3"],
    "functional": ["0.25*HF + 0.75*PBE, PBE", "rsh(0.2;1;0.3) + 0.5*sr_hf(0.3), lyp", "libxc:gga_x_pbe", "b3lyp-d3bj"],
    "basis": ["[[0, [1.3, 0.2], [0.2, 0.9]], [1, [0.8, 1.0]]]", '"def2-svp"', '{"H": "sto-3g"}'],
    "memory": ['"4 GB"', "4000", '"1.5e3 MiB"'],
    "document": [
        json.dumps(
            {
                "schema_name": "qcschema_input",
                "schema_version": 1,
                "molecule": {"symbols": ["H", "H"], "geometry": [0, 0, 0, 0, 0, 1.4], "real": [True, False]},
                "driver": "energy",
                "model": {"method": "pbe", "basis": "sto-3g"},
                "keywords": {"grid_level": 1},
            }
        )
    ],
    "file": [],
}
"""Good inputs to begin with."""

TARGETS = {
    "geometry": parse_geometry,
    "frames": split_frames,
    "atoms": lambda text: parse_atom_list(found if isinstance(found := value(text), list) else [found]),
    "molecule": lambda text: dftfd.molecule(text + ";", basis="sto-3g"),
    "element": lambda text: parse_atom_name(text, "atom 1"),
    "functional": parse,
    "basis": lambda text: checked_basis(value(text), AtomName("H", False, "H")),
    "memory": lambda text: memory_size(value(text)),
    "document": document,
    "file": file,
}


def main(name):
    """Fuzz one of the targets for as long as the options say."""
    warnings.simplefilter("ignore")
    target = TARGETS[name]

    def try_one(data):
        try:
            target(data if name == "file" else data.decode("utf-8", errors="surrogateescape"))
        except dftfd.DftfdError as error:
            assert str(error) and "\n" not in str(error)

    dictionary = PLACE / "words"
    dictionary.write_text("".join(f'"{word}"\n' for word in WORDS))
    corpus = PLACE / "corpus"
    corpus.mkdir()
    for k, seed in enumerate([text.encode() for text in SEEDS[name]] or [good_file()]):
        (corpus / f"{k}").write_bytes(seed)
    atheris.Setup([sys.argv[0], f"-dict={dictionary}", str(corpus), *sys.argv[2:]], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
