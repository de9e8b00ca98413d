"""Files that are merely there, and input that is given, are never executed.

A folder, a HOME and folders of data are filled with crafted names, contents and configurations, and environment
variables point to some; each would leave a mark, a file named after its case, were it executed. Processes then do what
people do there. PySCF itself leaves marks in the same folder, so the traps are sharp.
"""

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from pyscf.gto import basis as pyscf_basis
from pyscf.gto import mole as pyscf_mole

ELEMENTS = ("H", "He", "O", "I", "Au")
PRESENT, GIVEN = {}, {}
"""What lies about while other things are done, and what a command is given as its input, by their names."""


class Place:
    """The folders of one test: `here` is the current one, `home` is HOME, `data` belongs to nobody in particular."""

    def __init__(self, root):
        self.here, self.home, self.data, self.marks = (root / name for name in ("here", "home", "data", "marks"))
        for folder in (self.here, self.home, self.data, self.marks):
            folder.mkdir()
        self.environment = {}

    def code(self, case) -> str:
        """A Python expression without blanks that leaves the mark of the case."""
        return f"open('{self.marks}/{case}','w')"

    def shell(self, case) -> str:
        """The same for a shell."""
        return f"touch {self.marks}/{case}"

    @property
    def executed(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())


class Marking:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def written(path, content):
    """The path of a file with this content, as an argument."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def present(plant):
    """Decorator: plant(place, code, shell) puts something there, with code that leaves the case's mark."""
    PRESENT[plant.__name__] = plant
    return plant


def given(plant):
    """Decorator: the same, and it returns the arguments of a command."""
    GIVEN[plant.__name__] = plant
    return plant


def basis_text(code):
    """A basis set as PySCF reads it from a file, with code for an exponent."""
    return "".join(f"#BASIS SET: x\n{element}    S\n      ({code},1.0)[1]   1.0\n" for element in ELEMENTS) + "END\n"


# ------------------------------------------------------------------------------------- names of basis sets in a folder

NAMES = (
    *("ano", "ANO", "Ano", "minao", "MINAO", "sapgraspsmall", "sapgrasplarge", "sap_grasp_small", "weigend"),
    *("def2-svp", "def2svp", "DEF2-SVP", "def2-tzvp", "def2-svp-jkfit", "def2-universal-jfit", "def2-universal-jkfit"),
    *("cc-pvdz", "ccpvdz", "cc-pvdz-jkfit", "cc-pvdz-ri", "sto-3g", "sto3g", "STO-3G", "6-31g", "6-31g*", "631g"),
    *("lanl2dz", "unc-def2-svp", "autoaux", "crenbl", "stuttgart", "gth-szv"),
)


def _plant_basis(name):
    def plant(place, code, shell):
        for folder in (place.here, place.home, place.data):
            written(folder / name, basis_text(code))

    return plant


PRESENT |= {f"basis_{number}_{name.lower().replace('*', 's')}": _plant_basis(name) for number, name in enumerate(NAMES)}


@present
def every_name_that_pyscf_knows(place, code, shell):
    names = {*pyscf_basis.ALIAS, *(entry[0] for entry in pyscf_mole.BSE_META.values())}
    for name in names - set(NAMES):
        if "/" not in name:
            written(place.here / name, basis_text(code))


# ------------------------------------------------------------------------------------------------------- configuration


@present
def pyscf_conf_of_the_folder(place, code, shell):
    written(place.here / ".pyscf_conf.py", f"{code}\ngto_basis_optimize_contraction = True\n")


@present
def pyscf_conf_of_home(place, code, shell):
    written(place.home / ".pyscf_conf.py", f"{code}\n")


@present
def pyscf_conf_of_a_variable(place, code, shell):
    place.environment["PYSCF_CONFIG_FILE"] = written(place.data / "conf.py", f"{code}\nVERBOSE = 9\n")


@present
def python_startup(place, code, shell):
    place.environment["PYTHONSTARTUP"] = written(place.home / ".pythonrc.py", f"{code}\n")


@present
def matplotlibrc_of_the_folder(place, code, shell):
    written(place.here / "matplotlibrc", "backend: module://evil_backend\naxes.prop_cycle: cycler('color', ['k'])\n")
    written(place.here / "evil_backend.py", f"{code}\n")


@present
def matplotlibrc_of_home(place, code, shell):
    cycle = f"axes.prop_cycle: cycler('color', [{code} and 'k'])\n"
    written(place.home / ".config/matplotlib/matplotlibrc", cycle)


@present
def ase_configuration(place, code, shell):
    written(place.home / ".config/ase/config.ini", f"[parallel]\nrunner = {shell}\n[dftfd]\ncommand = {shell}\n")


@present
def ase_command(place, code, shell):
    place.environment["ASE_DFTFD_COMMAND"] = shell


@present
def dask_configuration(place, code, shell):
    preload = f"distributed:\n  worker:\n    preload: ['{place.here}/preloaded.py']\n"
    written(place.home / ".config/dask/dask.yaml", f"{preload}x: !!python/object/apply:os.system ['{shell}']\n")
    written(place.here / "preloaded.py", f"{code}\n")


@present
def pager_editor_browser(place, code, shell):
    place.environment |= {name: f"sh -c '{shell}'" for name in ("PAGER", "EDITOR", "BROWSER", "VISUAL", "MANPAGER")}


@present
def git_of_the_folder(place, code, shell):
    written(place.here / ".git/config", f"[core]\n\tfsmonitor = {shell}\n\tpager = {shell}\n")
    written(place.here / ".git/HEAD", "ref: refs/heads/main\n")


@present
def configuration_of_tests_and_tools(place, code, shell):
    written(place.here / "conftest.py", f"{code}\n")
    written(place.here / "setup.py", f"{code}\n")
    written(place.here / "noxfile.py", f"{code}\n")


@present
def dotenv(place, code, shell):
    written(place.here / ".env", f"DFTFD_CACHE_DIR=$({shell})\n")
    written(place.here / "dftfd.toml", f"hook = '{shell}'\n")


@present
def geometric_logging(place, code, shell):
    text = f"[loggers]\nkeys=root\n[handlers]\nkeys=h\n[handler_h]\nclass=StreamHandler\nargs=({code},)\n"
    for name in ("log.ini", "logging.ini", "config/log.ini"):
        written(place.here / name, text)


@present
def dispersion_parameters(place, code, shell):
    for name in ("parameters.toml", "dftd3.toml", "dftd4.toml", ".dftd4"):
        written(place.here / name, f'x = "{code}"\n')


# -------------------------------------------------------------------------- modules that shadow, plug-ins, data folders

MODULES = ("sitecustomize", "usercustomize", "numpy", "scipy", "jax", "h5py", "pyscf", "typing", "dftfd", "matplotlib")


def _plant_module(name):
    def plant(place, code, shell):
        for folder in (place.here, place.home):
            written(folder / f"{name}.py", f"{code}\n")

    return plant


PRESENT |= {f"module_{name}": _plant_module(name) for name in MODULES}


@present
def packages_of_names_in_use(place, code, shell):
    for name in ("dftfd", "functionals", "grids", "jax_plugins/evil", "pyscf/dispersion", "jax_xc", "autofd"):
        written(place.here / name / "__init__.py", f"{code}\n")


@present
def path_files(place, code, shell):
    written(place.here / "evil.pth", f"import os; {code}\n")
    written(place.here / "pyscf.pkg", f"{place.here}\n")


@present
def entry_points_of_the_folder(place, code, shell):
    groups = "".join(f"[{group}]\nevil = evil_plugin\n" for group in ("jax_plugins", "ase.ioformats", "dftfd"))
    written(place.here / "evil-1.0.dist-info/entry_points.txt", groups)
    written(place.here / "evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    written(place.here / "evil_plugin.py", f"{code}\n")


@present
def functionals_of_the_folder(place, code, shell):
    for name in ("pbe", "pbe.py", "lda,vwn", "libxc:pbe", "functionals/pbe.py", "dftfd/functionals/mine.py"):
        written(place.here / name, f"{code}\n")


@present
def parameters_of_jax_xc(place, code, shell):
    for name in ("jax_xc_parameters.json", "jax_xc/parameters.json", "dftfd/functionals/jax_xc_parameters.json"):
        written(place.here / name, json.dumps({"py/reduce": [code]}))
    written(place.here / "jax_xc/functionals.py", f"{code}\n")


@present
def cache_of_pickles(place, code, shell):
    folder = place.data / "cache"
    folder.mkdir(mode=0o700)
    place.environment["DFTFD_CACHE_DIR"] = str(folder)
    pickled = pickle.dumps(Marking(place.marks / "cache_of_pickles"))
    for name in ("jit__compiled-00-cache", "xla_gpu_per_fusion_autotune_cache_dir", "index"):
        written(folder / name, pickled)


@present
def data_folders_of_dftfd(place, code, shell):
    for folder in (".local/share/dftfd", ".config/dftfd", ".cache/dftfd", ".dftfd"):
        for name in ("config.py", "plugins.py", "__init__.py", "startup.py"):
            written(place.home / folder / name, f"{code}\n")


@present
def scratch_files(place, code, shell):
    place.environment |= {"PYSCF_TMPDIR": str(place.data), "TMPDIR": str(place.data)}
    for name in ("chkfile", "tmp.chk", "pyscf.py"):
        written(place.data / name, pickle.dumps(Marking(place.marks / "scratch_files")))


ORDINARY = """
import sys, warnings
import dftfd
from dftfd.cli import main
from dftfd.libcint.guesses import atomic_density
from dftfd.libcint.mole import minao_guess
from dftfd.libcint.two_electron import auxiliary_basis

warnings.simplefilter("ignore")
HYDROXYL = "O 0 0 0; H 0 0 0.97"
OPTIONS = dict(xc="lda,vwn", grid_level=0)

def attempt(action):
    try:
        return action()
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)

hydroxyl = dftfd.molecule(HYDROXYL, basis="sto-3g", charge=-1)
for guess in ("minao", "atom", "hueckel", "sap"):
    result = attempt(lambda: dftfd.run_scf(hydroxyl, guess=guess, **OPTIONS))
    attempt(lambda: result.charges("meta-loewdin"))
mixed = dftfd.molecule(HYDROXYL, basis={"O": "cc-pvdz", "H": "def2-svp"}, charge=-1)
attempt(lambda: dftfd.run_scf(mixed, "hf"))
for basis in ("def2-svp", "lanl2dz"):
    heavy = dftfd.molecule("Au 0 0 0; I 0 0 2.5", basis=basis)
    attempt(lambda: minao_guess(heavy))
    for exact_exchange in (True, False):
        attempt(lambda: auxiliary_basis(heavy, exact_exchange))
attempt(lambda: atomic_density(dftfd.molecule("I 0 0 0;", basis="def2-svp", charge=-1)))
for ending in ("h5", "json", "npz", "molden"):
    attempt(lambda: result.write(f"result.{ending}"))
attempt(lambda: dftfd.load_result("result.h5").to_pyscf())
main(["run", "He 0 0 0;", "--xc", "hf", "--basis", "ano", "--checkpoint", "a.chk", "--quiet"])
main(["list", "pbe"])
print("done")
"""

THOROUGH = """
import dftfd
from dftfd.cli import main
import dftfd.ase

if __name__ == "__main__":
    model = ["--xc", "lda,vwn", "--basis", "sto-3g"]
    for restart in ([], ["--restart"]):
        main(["optimize", "H 0 0 0; H 0 0 0.9", "--trajectory", "path.xyz", *model, *restart])
    main(["run", "path.xyz", "--jobs", "2", *model])
    main(["run", "O 0 0 0; H 0 0 0.97", "--charge", "-1", "--xc", "pbe-d3bj", *model[2:], "--record", "r.jsonl"])
    for basis in ("def2-svp", "lanl2dz"):
        main(["run", "Au 0 0 0; I 0 0 2.5", "--basis", basis, "--grid-level", "0", "--max-cycles", "2"])
    main(["run", "He 0 0 0;", "--xc", "pbe", "--basis", "def2-tzvp", "--report", "report.html", "--stability"])
    main(["gradient", "H 0 0 0; H 0 0 0.9", "--xc", "pbe0"])
    main(["show", "lda,vwn", "--plot", "card.png"])
    main(["check", "lda,vwn"])
    from ase import Atoms
    atoms = Atoms("He")
    atoms.calc = dftfd.ase.DFTFD(xc="lda,vwn", basis="sto-3g")
    atoms.get_potential_energy()
    print("done")
"""


CLUSTER = """
import dftfd

if __name__ == "__main__":
    from distributed import Client
    with Client(n_workers=1, processes=True, dashboard_address=None) as client:
        dftfd.run_batch(["He 0 0 0;"], "lda,vwn", client=client, molecule_options={"basis": "sto-3g"})
    print("done")
"""


def process(place, program, timeout):
    """Run a program in the folder, with its HOME; sys.path is that of an installed command, without the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PYTHON"))}
    environment |= {"HOME": str(place.home)} | place.environment
    return subprocess.run(
        [sys.executable, "-P", program] if isinstance(program, Path) else [sys.executable, "-P", "-c", program],
        cwd=place.here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture
def place(tmp_path):
    """The folders with everything of PRESENT in them."""
    place = Place(tmp_path)
    for case, plant in PRESENT.items():
        plant(place, place.code(case), place.shell(case))
    return place


def test_nothing_that_lies_about_is_executed(place):
    """Guesses, fitting sets, populations, core potentials, files, a batch: all done, no mark of any case."""
    done = process(place, ORDINARY, 300)
    assert place.executed == []
    assert done.stdout.endswith("done\n") and "Error" not in done.stderr, done.stderr


@pytest.mark.slow
def test_nothing_that_lies_about_is_executed_by_the_rest(place):
    """Optimisation, worker processes, reports, ASE; a Dask cluster, which does not start on what Dask does not take."""
    (place.data / "program").mkdir()

    def done(name, code):
        program = place.data / "program" / name
        program.write_text(code)
        return process(place, program, 900)

    first = done("thorough.py", THOROUGH)
    assert first.stdout.endswith("done\n"), first.stderr
    refused = process(place, "from dftfd.cli import main; main(['run', 'He 0 0 0;', '--scheduler', 'tcp://x:1'])", 100)
    assert refused.stderr.startswith("dftfd: error: Dask does not start: ") and refused.stderr.count("\n") == 1
    assert place.executed == []
    configuration = place.home / ".config/dask/dask.yaml"
    configuration.write_text(configuration.read_text().partition("x: !!python")[0])
    second = done("cluster.py", CLUSTER)
    assert second.stdout.endswith("done\n"), second.stderr
    assert set(place.executed) <= {"dask_configuration"}  # Dask's own configuration, which only its cluster reads


@pytest.mark.slow  # 1.2 s, a process; it is about PySCF
def test_the_traps_are_sharp(place):
    """PySCF by itself executes its configuration, and a file with the name of a basis set."""
    program = "from pyscf import gto\nfor n in ('ano', 'sto-3g'): print(gto.basis.load(n, 'H'))"
    assert process(place, program, 100).returncode == 0
    assert place.executed == ["basis_0_ano", "basis_20_sto-3g", "pyscf_conf_of_a_variable"]


@pytest.mark.slow  # 3 s, two processes; that none is read: the tests above
def test_a_configuration_that_was_read_before_is_named(tmp_path):
    """A program that imports PySCF first has its configuration: a warning names what may change numbers, only that."""
    place = Place(tmp_path)
    program = "import pyscf, warnings\nwith warnings.catch_warnings(record=True) as said:\n"
    program += "    warnings.simplefilter('always')\n    import dftfd.interop\nprint([str(w.message) for w in said])"
    written(place.home / ".pyscf_conf.py", "import os\nVERBOSE = 0\nTMPDIR = '/tmp'\n")
    assert process(place, program, 100).stdout == "[]\n"
    written(place.home / ".pyscf_conf.py", "scf_atom_hf_x = 1\ngto_basis_optimize_contraction = True\n")
    said = process(place, program, 100).stdout
    assert ".pyscf_conf.py sets gto_basis_optimize_contraction, scf_atom_hf_x:" in said


# ----------------------------------------------------------------------------------------------- input that is given

HELIUM = "He 0 0 0;"


@given
def xyz_with_an_expression_for_a_coordinate(place, code, shell):
    return ["run", written(place.here / "coordinate.xyz", f"1\n\nHe 0 0 {code}\n")]


@given
def xyz_with_an_expression_for_a_name(place, code, shell):
    return ["run", written(place.here / "name.xyz", f"1\n\n{code} 0 0 0\n")]


@given
def xyz_with_an_expression_for_its_number_of_atoms(place, code, shell):
    return ["run", written(place.here / "number.xyz", f"{code}\n\nHe 0 0 0\n")]


@given
def xyz_with_an_expression_for_its_charge(place, code, shell):
    return ["run", written(place.here / "charge.xyz", f"1\ncharge={code}\nHe 0 0 0\n")]


@given
def xyz_with_a_shell_in_its_comment(place, code, shell):
    return ["run", written(place.here / "comment.xyz", f"1\n`{shell}` $({shell}) spin=$({shell})\nHe 0 0 0\n")]


@given
def coordinates_with_an_expression(place, code, shell):
    return ["run", f"He 0 0 {code};"]


@given
def a_pattern_with_a_shell(place, code, shell):
    return ["run", f"*$({shell})*`{shell}`.xyz"]


@given
def a_functional_with_an_expression(place, code, shell):
    return ["run", HELIUM, "--xc", f"{code}*pbe"]


@given
def a_basis_set_of_another_folder(place, code, shell):
    return ["run", HELIUM, "--basis", written(place.data / "evil-basis", basis_text(code))]


@given
def basis_set_text_with_an_expression(place, code, shell):
    return ["run", HELIUM, "--basis", f"He    S\n   ({code},1.0)[1]   1.0\n"]


@given
def a_guess_that_is_pickled(place, code, shell):
    name = "a_guess_that_is_pickled"
    return ["run", HELIUM, "--guess", written(place.here / "guess.npy", pickle.dumps(Marking(place.marks / name)))]


@given
def a_guess_of_a_named_basis(place, code, shell):
    return ["run", HELIUM, "--guess", written(place.here / "evil.ano", basis_text(code))]


def document(**fields):
    """A QCSchema input with some fields replaced."""
    molecule = {"symbols": ["He"], "geometry": [0.0, 0.0, 0.0]}
    model = {"method": "lda,vwn", "basis": "sto-3g"}
    return json.dumps({"molecule": molecule, "driver": "energy", "model": model, "keywords": {}} | fields)


@given
def json_with_class_tags(place, code, shell):
    tag = {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, [shell]], "__class__": code}
    return ["run", written(place.here / "tags.json", document(keywords=tag))]


@given
def json_with_an_expression_for_an_option(place, code, shell):
    return ["run", written(place.here / "option.json", document(keywords={"grid_level": code}))]


@given
def json_with_an_expression_for_a_symbol(place, code, shell):
    molecule = {"symbols": [code], "geometry": [0, 0, 0]}
    return ["run", written(place.here / "symbol.json", document(molecule=molecule))]


@given
def json_that_is_yaml(place, code, shell):
    return ["run", written(place.here / "yaml.json", f"!!python/object/apply:os.system ['{shell}']\n")]


@given
def a_checkpoint_that_is_pickled(place, code, shell):
    name = "a_checkpoint_that_is_pickled"
    return ["run", HELIUM, "--restart", written(place.here / "p.chk", pickle.dumps(Marking(place.marks / name)))]


def _hdf5(path, fill):
    with h5py.File(path, "w") as file:
        fill(file)
    return str(path)


@given
def a_checkpoint_of_pyscf_with_code_for_its_molecule(place, code, shell):
    def fill(file):
        file["mol"] = code
        file["scf/e_tot"] = 0.0

    return ["run", HELIUM, "--guess", _hdf5(place.here / "pyscf.chk", fill)]


@given
def hdf5_with_a_pickle(place, code, shell):
    pickled = pickle.dumps(Marking(place.marks / "hdf5_with_a_pickle"))
    return [
        "run",
        HELIUM,
        "--restart",
        _hdf5(place.here / "v.chk", lambda file: file.create_dataset("dftfd", data=np.void(pickled))),
    ]


@given
def hdf5_with_links_to_other_files(place, code, shell):
    def fill(file):
        file["dftfd"] = h5py.ExternalLink(str(place.here / "pyscf.chk"), "/mol")
        file["scf"] = h5py.SoftLink("/dftfd")

    return ["run", HELIUM, "--restart", _hdf5(place.here / "links.chk", fill)]


@given
def hdf5_with_a_filter_of_a_library(place, code, shell):
    place.environment["HDF5_PLUGIN_PATH"] = str(place.data)
    written(place.data / "libh5evil.so", f"#!/bin/sh\n{shell}\n")
    return ["run", HELIUM, "--restart", written(place.here / "f.chk", b"\x89HDF\r\n\x1a\n" + bytes(1000))]


@given
def an_archive_of_pickles(place, code, shell):
    path = place.here / "guess.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mo_coeff.npy", pickle.dumps(Marking(place.marks / "an_archive_of_pickles")))
        archive.writestr("../leaves.py", code)
    return ["run", HELIUM, "--guess", str(path)]


@given
def a_record_with_code(place, code, shell):
    line = json.dumps({"key": code, "__class__": code, "py/reduce": [shell]})
    return ["run", HELIUM, "--record", written(place.here / "code.jsonl", line + "\n")]


@given
def a_trajectory_with_code(place, code, shell):
    text = f'1\nProperties=species:S:1:pos:R:3:forces:R:3 energy={code} model="{code}"\nHe 0 0 0 0 0 {code}\n'
    path = written(place.here / "code.xyz", text)
    return ["optimize", "He 0 0 0; He 0 0 3", "--trajectory", path, "--restart"]


@given
def constraints_with_code(place, code, shell):
    path = written(place.here / "constraints.txt", f"$set\ndistance 1 2 {code}\n$scan\ndistance 1 {code} 1 2 3\n")
    return ["optimize", "He 0 0 0; He 0 0 3", "--constraints", path, "--trajectory", "constrained.xyz"]


@given
def an_output_in_a_pipe_of_a_shell(place, code, shell):
    return ["run", HELIUM, "--json", f"|{shell}"]


@given
def a_size_with_an_expression(place, code, shell):
    return ["run", HELIUM, "--max-memory", code]


@given
def a_scheduler_with_code(place, code, shell):
    return ["run", HELIUM, "--scheduler", f"{code}://{shell}"]


@given
def a_functional_to_show(place, code, shell):
    return ["show", f"libxc:{code}"]


def test_nothing_that_is_given_is_executed(tmp_path):
    """Each input is refused by its command, and no mark is left."""
    place = Place(tmp_path)
    arguments = {case: plant(place, place.code(case), place.shell(case)) for case, plant in GIVEN.items()}
    program = (
        f"from dftfd.cli import main\nfor case, arguments in {arguments!r}.items():\n    print(case, main(arguments))"
    )
    done = process(place, program, 300)
    codes = dict(words for words in map(str.split, done.stdout.splitlines()) if words and words[0] in GIVEN)
    assert place.executed == []
    assert set(codes) == set(GIVEN) and set(codes.values()) <= {"2", "5", "6"}, (codes, done.stderr)


def test_there_are_sixty():
    """The number that docs/reliability.md names, at least."""
    assert len(PRESENT) + len(GIVEN) >= 60
