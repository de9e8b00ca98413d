"""Scenes: the surfaces that a page draws are those of the functions; the page in a browser, and the command for it."""

import base64
import re

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import dftfd
from dftfd.cli import main
from dftfd.errors import FileError, InputError
from dftfd.results.scene import POINTS, molecule_scene, result_scene, scene_script
from dftfd.xc.density import evaluate_at
from tests.javascript import needs_node, run_javascript

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


@pytest.fixture(scope="module")
def water():
    return dftfd.run_scf(dftfd.molecule(WATER, basis="6-31g"), "lda,vwn", grid_level=0)


@pytest.fixture(scope="module")
def scene(water):
    return result_scene(water)


def script_of(scenes) -> str:
    return re.search(r"<script>(.*)</script>", scene_script(scenes), re.S)[1]


def field_of(values, origin, step):
    coded = base64.b64encode(values.astype("<f2").tobytes()).decode()
    return {"origin": origin, "step": step, "counts": list(values.shape), "values": coded, "level": 0.1, "name": "f"}


@needs_node
def test_numbers_arrive(tmp_path):
    """All finite half-precision numbers, bit by bit."""
    numbers = np.arange(65536, dtype="<u2").view("<f2")
    finite = np.isfinite(numbers)
    scenes = {"a": {"fields": [field_of(numbers, [0, 0, 0], 1.0)]}}
    found = np.array(run_javascript(script_of(scenes) + "\nprint(box(SCENES.a.fields[0]));", tmp_path), dtype=float)
    np.testing.assert_array_equal(found[finite], numbers[finite].astype(float))


@needs_node
def test_surface_of_an_ellipsoid(tmp_path):
    """Of exp(-x^2 - y^2/2 - z^2/4): half axes and volume in closed form, normals along the gradient."""
    step, level, weights = 0.2, 0.1, np.array([1.0, 0.5, 0.25])
    axis = np.arange(-5, 5.1, step)
    x = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    scenes = {"a": {"fields": [field_of(np.exp(-(x**2 @ weights)), [-5, -5, -5], step)]}}
    code = "\nconst mesh = surface(SCENES.a.fields[0], 0.1); print([mesh.position, mesh.normal, volume(mesh)]);"
    position, normal, volume = run_javascript(script_of(scenes) + code, tmp_path)
    position, normal = (np.reshape(v, (-1, 3)) for v in (position, normal))
    half_axes = np.sqrt(-np.log(level) / weights)
    np.testing.assert_allclose(position.max(axis=0), half_axes, atol=0.02)
    np.testing.assert_allclose(position.min(axis=0), -half_axes, atol=0.02)
    assert volume == pytest.approx(4 / 3 * np.pi * half_axes.prod(), rel=0.02)
    outwards = position * weights
    cosines = np.einsum("pi,pi->p", outwards, normal) / np.linalg.norm(outwards, axis=1)
    assert cosines.min() > 0.99


@pytest.mark.slow
@needs_node
def test_surfaces_of_a_result(water, scene, tmp_path):
    """Vertices lie where the result's own functions have the level; an orbital's lobes are alike by symmetry."""
    level = {"tinted": 0.1, "HOMO": 0.1, "elf": 0.8}
    code = f"\nconst levels = {level}, fields = SCENES.w.fields.filter(f => f.name in levels);"
    code += (
        "\nprint(fields.map(f => [f.name, surface(f, levels[f.name]).position, surface(f, -levels[f.name]).position]));"
    )
    functions = {"tinted": water.density[0] + water.density[1], "HOMO": water.orbital(4), "elf": water.elf}
    for name, position, negative in run_javascript(script_of({"w": scene}) + code, tmp_path):
        points = np.reshape(position, (-1, 3))[::9]
        values = np.asarray(evaluate_at(functions[name], points))
        assert len(points) > 100 and np.median(np.abs(values / level[name] - 1)) < 0.03, name
        assert bool(negative) == (name == "HOMO")
        if negative:  # the HOMO changes its sign in the plane of the molecule, x = 0
            across = np.reshape(negative, (-1, 3))
            assert np.max(np.reshape(position, (-1, 3))[:, 0] * np.sign(points[0, 0])) == pytest.approx(
                -np.min(across[:, 0] * np.sign(points[0, 0])), abs=0.05
            )


@pytest.mark.slow
@needs_node
def test_values_between_points(scene, tmp_path):
    """Linear interpolation is SciPy's; nothing outside of the box."""
    potential = next(f for f in scene["fields"] if f["name"] == "potential")
    points = [[0.3, 0.1, 1.9], [2.2, -1.0, 0.4], [-1.1, 2.0, -2.0]]
    code = f"\nconst f = SCENES.w.fields.find(f => f.name === 'potential'); print({points}.map(p => valueAt(f, ...p)));"
    found = run_javascript(script_of({"w": scene}) + code, tmp_path)
    values = np.frombuffer(base64.b64decode(potential["values"]), "<f2").astype(float).reshape(potential["counts"])
    axes = [o + potential["step"] * np.arange(n) for o, n in zip(potential["origin"], values.shape, strict=True)]
    np.testing.assert_allclose(found, RegularGridInterpolator(axes, values)(points), rtol=1e-6)


@pytest.mark.slow
def test_what_a_scene_holds(water, scene):
    """Bonds of water; HOMO-2 to LUMO+2, no spin density of a closed shell; bounded boxes that hold the atoms."""
    assert scene["bonds"] == [[0, 1], [0, 2]] and [a["symbol"] for a in scene["atoms"]] == ["O", "H", "H"]
    names = [f["name"] for f in scene["fields"]]
    assert names == "tinted HOMO HOMO-1 HOMO-2 LUMO LUMO+1 LUMO+2".split() + ["elf", "v_xc alpha", "potential"]
    for f in scene["fields"]:
        assert np.prod(f["counts"]) <= POINTS and len(base64.b64decode(f["values"])) == 2 * np.prod(f["counts"])
        top = np.array(f["origin"]) + f["step"] * (np.array(f["counts"]) - 1)
        assert np.all(f["origin"] < water.molecule.coordinates.min(axis=0) - 3.9)
        assert np.all(top > water.molecule.coordinates.max(axis=0) + 3.9)
    assert molecule_scene(["He"], [[0, 0, 0]], "helium")["bonds"] == []


def test_names_are_text():
    """What stands in a scene cannot end the script."""
    scenes = {"</script><b>": molecule_scene(["H"], [[0, 0, 0]], "</script>")}
    assert scene_script(scenes).count("</script>") == 1


def test_excitations_of_another_molecule_are_refused(water):
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "lda,vwn", grid_level=0)
    with pytest.raises(InputError, match="2 basis functions, the result has 13"):
        water.view(helium.excitations(1))
    with pytest.raises(InputError, match="excitations"):
        water.view("spectrum")


def test_the_command_says_what_it_shows(capsys):
    """A molecule is no result: the line says how to make one."""
    assert main(["view", "water.xyz"]) == InputError.exit_code
    assert "dftfd run water.xyz --output water.h5" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_in_a_browser(browser, tmp_path, capsys):
    """From files by the command: nothing on the console, axe finds nothing, no wider than a phone; each surface is
    there and says its level, another level another surface, arrow keys turn it; energies are those computed."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install 'dftfd[browser]'")
    water = dftfd.run_scf(dftfd.molecule(WATER, basis="6-31g"), "lda,vwn", grid_level=0)
    found = water.excitations(2)
    water.save(tmp_path / "water.h5")
    found.save(tmp_path / "excitations.h5")
    path, told = tmp_path / "water.html", []
    command = ["view", str(tmp_path / "water.h5"), "--excitations", str(tmp_path / "excitations.h5"), "-o", str(path)]
    assert main(command) == 0 and "MB of HTML" in capsys.readouterr().out
    assert main(command) == FileError.exit_code
    assert path.stat().st_size < 3e6
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.on("console", lambda message: message.type in ("error", "warning") and told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto(path.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    picture = "document.querySelector('canvas').toDataURL()"
    pictures = {}
    for name in opened.locator("figure select option").evaluate_all("options => options.map(o => o.value)"):
        opened.locator("figure select").select_option(name)
        said = opened.locator("output").inner_text()
        assert ("nowhere" not in said and "=" in said) == bool(name), said
        pictures[name] = opened.evaluate(picture)
    assert len(pictures) == len(result_scene(water, found)["fields"]) + 1
    own = {name: image for name, image in pictures.items() if "excitation" not in name}
    assert len(set(own.values())) == len(own)  # the hole of a state may look as the HOMO does
    for state in (name.removesuffix(": hole") for name in pictures if name.endswith(": hole")):
        assert len({pictures[""], pictures[f"{state}: hole"], pictures[f"{state}: electron"]}) == 3
    opened.locator("figure select").select_option("HOMO")
    assert "±0.05" in opened.locator("output").inner_text()
    before = opened.evaluate(picture)
    opened.locator("figure input[type=range]").fill("700")
    assert "±0.195" in opened.locator("output").inner_text()  # 0.05 * 30^0.4
    after = opened.evaluate(picture)
    opened.locator("canvas").press("ArrowLeft")
    opened.wait_for_function(f"{picture} !== {after!r}")
    assert before != after and float(opened.locator("canvas").get_attribute("data-milliseconds")) < 500
    assert all(f"{w * 27.21138602:.4f}" in opened.locator("main").inner_text() for w in found.energies)
    problems = axe.Axe().run(opened)
    assert not told and problems.violations_count == 0, (told, problems.generate_report())


def test_excitations_of_another_molecule_of_one_size_are_refused():
    """Those of helium in two functions went with hydrogen in two."""
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "hf", grid_level=0)
    hydrogen = dftfd.run_scf(dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g"), "hf", grid_level=0)
    with pytest.raises(InputError, match="they were computed from other orbitals"):
        hydrogen.view(helium.excitations(1))


def test_molecules_face_the_reader():
    """Water in an oblique plane: a rotation, whose first axis is along H-H and whose last is normal to the plane."""
    turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    atoms = np.array([[0, 0, 0.2], [0, 1.43, -0.9], [0, -1.43, -0.9]]) @ turn.T
    axes = np.array(molecule_scene(["O", "H", "H"], atoms, "water")["turn"])
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-5)
    assert np.linalg.det(axes) == pytest.approx(1, abs=1e-5)
    shown = (atoms - atoms.mean(axis=0)) @ axes.T
    np.testing.assert_allclose(shown[:, 2], 0, atol=1e-5)
    assert abs(shown[1, 0] - shown[2, 0]) == pytest.approx(2.86, abs=1e-4)


@needs_node
def test_modes_move_atoms_and_bonds(tmp_path):
    """Displaced by half a mode and back; the two halves of a bond begin at the atoms' places."""
    scene = molecule_scene(["H", "H"], [[0.0, 0, -0.7], [0, 0, 0.7]], "hydrogen")
    scene["modes"] = [[[0.1, 0, -0.4], [0, 0.2, 0.4]]]
    code = """
    const view = new View({width: 10, height: 10}, SCENES.a), end = b => Math.min(b.position[2], b.position[5]);
    const seen = () => [view.atoms.map(a => a.at), view.bonds.map(end)], all = [seen()];
    for (const mode of [SCENES.a.modes[0], undefined]) { view.displace(mode, 0.5); all.push(seen()); }
    print(all);
    """
    before, there, back = run_javascript(script_of({"a": scene}) + code, tmp_path)
    assert before == back
    np.testing.assert_allclose(there[0], [[0.05, 0, -0.9], [0, 0.1, 0.9]])
    np.testing.assert_allclose([before[1][0], there[1][0]], [-0.7, -0.9], atol=0.02)
