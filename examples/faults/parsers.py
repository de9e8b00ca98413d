"""Coverage-guided fuzz of one parser with atheris (pip install atheris): errors of dftfd only.

    python examples/faults/parsers.py geometry -max_total_time=180

Atheris changes bytes so that new branches of the parser are reached. Options are libFuzzer's; the exit code is not 0 if
an exception that is not dftfd's came out, and the bytes that did it are kept in a file crash-*.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dftfd.io", "dftfd.functionals.names", "dftfd.basis", "dftfd.elements"]):
    import dftfd
    from dftfd.basis import checked_basis
    from dftfd.elements import AtomName, parse_atom_name
    from dftfd.functionals.names import parse
    from dftfd.io.geometry import parse_atom_list, parse_geometry, split_frames
    from dftfd.io.hdf5 import read_tree, seal
    from dftfd.io.qcschema import read_input
    from dftfd.resources import memory_size

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
    atheris.Setup([sys.argv[0], f"-dict={dictionary}", *sys.argv[2:]], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
