"""Double hybrids: against PySCF's mean field and MP2 on the same orbitals, published energies, and MP2 itself."""

import itertools
import json

import numpy as np
import pytest
import scipy.linalg
from pyscf import df, gto, mp, scf
from pyscf.mp import dfmp2, dfump2

import dftfd
from dftfd.batch.entries import energies_on
from dftfd.cli import main
from dftfd.errors import FileError, InputError, UnsupportedError
from dftfd.functionals.definition import from_definition
from dftfd.functionals.hybrids import orbitals_alone
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import core_orbitals, second_order_energies
from dftfd.results.result_file import load_result

slow = pytest.mark.slow
BENT = {0: "O 0 0 0.1; H 0.1 0.76 -0.48; H 0 -0.74 -0.5", 1: "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"}
TIGHT = {"grid_level": 0, "conv_tol": 1e-11}
WORDS = {
    "b2plyp": ("0.53*HF + 0.47*B88, 0.73*LYP", 0.27, 0.27),
    "revdsd-pbep86": ("0.69*HF + 0.31*PBE, 0.4210*P86", 0.5922, 0.0636),
}


def solved(xc, spin=0, basis="6-31g", **options):
    return dftfd.run_scf(dftfd.molecule(BENT[spin], basis=basis, spin=spin), xc, **TIGHT | options)


def pyscfs(name, spin, basis, fitted, frozen):
    """(total, PT2) of PySCF: its Kohn-Sham with these fractions, its MP2 of those orbitals, scaled."""
    words, os, ss = WORDS[name]
    mf = solved(words, spin, basis, density_fit=fitted, conv_tol=1e-6).to_pyscf()
    mf.conv_tol, mf.conv_tol_grad, mf.verbose = 1e-11, 1e-7, 0
    mf.kernel()
    if fitted:
        pairs = (dfump2.DFUMP2 if spin else dfmp2.DFRMP2)(mf, frozen=frozen)
        by_name = gto.M(atom=BENT[spin], basis=basis, spin=spin, verbose=0)
        pairs.with_df = df.DF(mf.mol, df.make_auxbasis(by_name, mp2fit=True))
    else:
        exact = (scf.UHF if spin else scf.RHF)(mf.mol)
        exact.mo_coeff, exact.mo_occ, exact.mo_energy, exact.converged = mf.mo_coeff, mf.mo_occ, mf.mo_energy, True
        pairs = mp.MP2(exact, frozen=frozen)
    pairs.kernel()
    energy = os * pairs.e_corr_os + ss * pairs.e_corr_ss
    return mf.e_tot + energy, energy


@pytest.mark.parametrize(
    ("name", "spin", "basis", "fitted", "frozen"),
    [
        pytest.param("b2plyp", 0, "def2-svp", True, False, marks=slow),
        pytest.param("revdsd-pbep86", 1, "6-31g", True, True, marks=slow),
        ("b2plyp", 1, "6-31g", False, False),
        pytest.param("revdsd-pbep86", 0, "6-31g", False, True, marks=slow),
        pytest.param("b2plyp", 1, "cc-pvdz", True, True, marks=slow),
        pytest.param("revdsd-pbep86", 0, "def2-tzvp", True, False, marks=slow),
    ],
)
def test_energy_is_pyscfs(name, spin, basis, fitted, frozen):
    """Total and PT2 energies, RKS and UKS, fitted and exact integrals, with and without the core: 1e-7 hartree."""
    result = solved(name, spin, basis, density_fit=fitted, frozen_core=frozen)
    total, pt2 = pyscfs(name, spin, basis, fitted, int(frozen))
    assert result.energies["pt2"] == pytest.approx(pt2, abs=1e-7)
    assert result.energy == pytest.approx(total, abs=1e-7)
    assert result.energy == pytest.approx(sum(result.energies.values()), abs=1e-12)


@slow
@pytest.mark.parametrize(
    ("geometry", "published"),
    [
        ("H 0 0 0; H 0 0 0.742904", -1.1709),
        ("O 0 0 0; H 0 0 0.960729; H 0.928322 0 -0.247417", -76.4309),
    ],
)
def test_published_energies(geometry, published):
    """B2PLYP/cc-pVQZ, all electrons, Table I of Grimme's paper, which gives four decimals."""
    result = dftfd.run_scf(dftfd.molecule(geometry, basis="cc-pvqz"), "b2plyp", grid_level=4)
    assert result.energy == pytest.approx(published, abs=6e-5)


def test_hartree_fock_with_it_is_mp2():
    """'hf + pt2' is MP2, and its parts are scaled by what stands before them."""
    result = solved("hf + pt2", density_fit=False)
    mf = scf.RHF(to_pyscf(result.molecule)).run(conv_tol=1e-12)
    pairs = mp.MP2(mf).run()
    assert result.energy == pytest.approx(pairs.e_tot, abs=1e-8)
    parts = [solved(f"hf + {part}", density_fit=False).energies["pt2"] for part in ("1.3*pt2_os", "0.3*pt2_ss")]
    assert parts == pytest.approx([1.3 * pairs.e_corr_os, 0.3 * pairs.e_corr_ss], abs=1e-8)


def test_fractions_are_those_of_the_papers():
    b2plyp, revdsd = map(dftfd.get_functional, ("b2plyp", "revdsd-pbep86-d4"))
    assert b2plyp.pt2 == (0.27, 0.27) and b2plyp.exact_exchange == ((0.0, 0.53),)
    assert [c for c, _ in b2plyp.terms] == [0.47, 0.73]
    assert revdsd.pt2 == (0.5922, 0.0636) and revdsd.exact_exchange == ((0.0, 0.69),)
    assert [c for c, _ in revdsd.terms] == [0.31, 0.4210]
    assert revdsd.dispersion == ("d4", "revdsdpbep86")


def test_fractions_that_were_fitted_with_another_correction():
    """Table 3 of Santra, Sylvetsky and Martin: revDSD-PBEP86-D3(BJ), which had the fractions of D4."""
    revdsd = dftfd.get_functional("revDSD-PBEP86-D3(BJ)")
    assert [c for c, _ in revdsd.terms] == [0.31, 0.4296] and revdsd.exact_exchange == ((0.0, 0.69),)
    assert revdsd.pt2 == (0.5785, 0.0799) and revdsd.dispersion == ("d3bj", "revdsdpbep86")


def test_own_double_hybrid():
    """By arithmetic or as text; a definition leads back to it, and sums and factors count."""
    x, c, pt2 = (dftfd.get_functional(name) for name in ("gga_x_pbe", "gga_c_pbe", "pt2"))
    own = 0.5 * dftfd.exact_exchange + 0.5 * x + 0.8 * c + 0.2 * pt2
    text = dftfd.get_functional("0.5*HF + 0.5*PBE, 0.8*PBE + 0.2*PT2")
    assert own.pt2 == text.pt2 == (0.2, 0.2) == from_definition(own.definition, "again").pt2
    assert (own + own).pt2 == (2 * own).pt2 == (0.4, 0.4)
    a, b = solved(own), solved(text)
    assert a.energy == pytest.approx(b.energy, abs=1e-9) and a.energies["pt2"] < -0.01
    plain = solved(orbitals_alone(own))
    assert plain.energies["pt2"] == 0.0
    assert a.energy == pytest.approx(plain.energy + a.energies["pt2"], abs=1e-9)


def test_with_dispersion():
    """The D4 correction with the numbers of revDSD-PBEP86, beside everything else."""
    pytest.importorskip("pyscf.dispersion")
    corrected, plain = (solved(name, frozen_core=True) for name in ("revdsd-pbep86-d4", "revdsd-pbep86"))
    assert corrected.energies["dispersion"] < -1e-5
    assert corrected.energy - plain.energy == pytest.approx(corrected.energies["dispersion"], abs=1e-9)


def test_one_electron_has_no_pairs():
    """Hydrogen; and an ion of nothing but its core, which is left out."""
    hydrogen = dftfd.run_scf(dftfd.molecule("H 0 0 0;", basis="6-31g**", spin=1), "b2plyp", **TIGHT)
    assert hydrogen.energies["pt2"] == pytest.approx(0.0, abs=1e-14)
    ion = dftfd.molecule("C 0 0 0;", basis="6-31g", charge=4)
    assert core_orbitals(ion) == 1
    options = TIGHT | {"grid_level": 2}
    assert dftfd.run_scf(ion, "b2plyp", frozen_core=True, **options).energies["pt2"] == 0.0
    assert dftfd.run_scf(ion, "b2plyp", **options).energies["pt2"] < -1e-4


OCCUPANCIES = {
    "H 2S": ("H", 0, 1),
    "He 3S": ("He", 0, 2),
    "Li 2S, beta all core": ("Li", 0, 1),
    "Li 4P, beta empty": ("Li", 0, 3),
    "B 4P, beta all core": ("B", 0, 3),
    "Na 2S, beta all core": ("Na", 0, 1),
    "He+ 2S": ("He", 1, 1),
    "N3+ 3P, one active alpha pair": ("N", 3, 2),
    "N 4S": ("N", 0, 3),
    "He, no empty orbital": ("He", 0, 0),
    "Be 5S, alpha full": ("Be", 0, 4),
}


@pytest.mark.parametrize(
    ("element", "charge", "spin", "swapped"),
    [
        pytest.param(*of, swapped, id=f"{swapped}-{name}", marks=[slow] * (swapped and of[0] not in ("B", "He")))
        for swapped in (False, True)
        for name, of in OCCUPANCIES.items()
    ],
)
def test_every_occupancy_has_its_pairs(element, charge, spin, swapped):
    """Spins with no electron, core alone, one electron, nothing empty: sums over all spin orbitals, written out here.

    Any orbitals and orbital energies do: only the sums are tested. With and without the core, either spin the majority.
    """
    basis = "sto-3g" if element in ("He", "Be") and spin in (0, 4) else "6-31g"
    atom = dftfd.molecule(f"{element} 0 0 0;", basis=basis, charge=charge, spin=spin)
    mole = to_pyscf(atom)
    _, C = scipy.linalg.eigh(mole.intor("int1e_kin"), mole.intor("int1e_ovlp"))
    C = np.stack([C, C @ scipy.linalg.expm(0.1 * (np.tri(len(C)) - np.tri(len(C)).T))])
    e = np.stack([np.linspace(-2.0, 2.0, len(C[0])), np.linspace(-2.5, 3.0, len(C[0]))])
    occupied = np.stack([np.arange(len(e[0])) < n for n in mole.nelec])[:: -1 if swapped else 1]
    e = np.where(occupied, e - 9.0, e)
    g = [[np.einsum("pqrs,pi,qj,rk,sl->ijkl", mole.intor("int2e"), x, x, y, y, optimize=True) for y in C] for x in C]
    for frozen in (0, core_orbitals(atom)):
        found = second_order_energies(atom, e, C, occupied.astype(float), False, frozen, 1e9)
        assert found == pytest.approx(_pairs_written_out(e, g, occupied, frozen), abs=1e-10)


def _pairs_written_out(e, g, occupied, frozen):
    """(opposite, same): sum over i < j, a < b of spin orbitals |<ij||ab>|^2 / (e_i + e_j - e_a - e_b)."""
    m = len(e[0])
    active = [(s, i) for s in (0, 1) for i in range(frozen, m) if occupied[s, i]]
    empty = [(s, a) for s in (0, 1) for a in range(m) if not occupied[s, a]]
    of = lambda p, q, r, s: g[p[0]][r[0]][p[1], q[1], r[1], s[1]] if p[0] == q[0] and r[0] == s[0] else 0.0
    opposite = same = 0.0
    for (i, j), (a, b) in itertools.product(itertools.combinations(active, 2), itertools.combinations(empty, 2)):
        pair = (of(i, a, j, b) - of(i, b, j, a)) ** 2 / (e[i] + e[j] - e[a] - e[b])
        same, opposite = (same + pair, opposite) if i[0] == j[0] else (same, opposite + pair)
    return opposite, same


@pytest.mark.parametrize("fitted", [True, False])
def test_quintet_carbon_keeps_the_pairs_of_its_valence(fitted):
    """Its beta electron is all core: what is left are PySCF's UMP2 pairs of alpha electrons, taken with integrals of
    their own; fitted ones come within 1e-4 hartree."""
    mole = gto.M(atom="C 0 0 0", basis="6-31g*", spin=4, verbose=0)
    mf = scf.UHF(mole).run(conv_tol=1e-12)
    C, e, n = mf.mo_coeff[0], mf.mo_energy[0], mole.nelec[0]
    o, v = C[:, 1:n], C[:, n:]
    g = np.einsum("pqrs,pi,qa,rj,sb->iajb", mole.intor("int2e"), o, v, o, v, optimize=True)
    d = e[1:n, None, None, None] - e[n:, None, None] + e[1:n, None] - e[n:]
    right = 0.25 * np.sum((g - g.transpose(0, 3, 2, 1)) ** 2 / d)
    atom = dftfd.molecule("C 0 0 0;", basis="6-31g*", spin=4)
    found = dftfd.run_scf(atom, "hf + pt2", "UKS", density_fit=fitted, frozen_core=True, conv_tol=1e-12)
    assert found.energies["pt2"] == pytest.approx(right, abs=1e-4 if fitted else 1e-8)


def test_core_orbitals():
    """Of atoms, less those in a core potential; ghosts have none."""
    assert core_orbitals(dftfd.molecule("S 0 0 0; ghost-O 0 0 2; H 0 0 -1.34", basis="6-31g", spin=1)) == 5
    iodine = dftfd.molecule("I 0 0 0; H 0 0 1.6", basis={"I": "lanl2dz", "H": "sto-3g"})
    assert core_orbitals(iodine) == 0  # 46 electrons in the potential, 5s and 5p left


def test_results_keep_it(tmp_path):
    result = solved("b2plyp", frozen_core=True)
    result.save(tmp_path / "r.h5")
    again = load_result(tmp_path / "r.h5")
    assert again.energies == result.energies and again.energy == result.energy
    assert again.functional.pt2 == (0.27, 0.27) and again.settings.frozen_core
    assert "perturbation theory" in str(again)
    document = json.loads(json.dumps(result.to_qcschema()))
    assert document["return_result"] == result.energy and document["keywords"]["frozen_core"] is True


def test_checkpoints_lead_on_and_are_no_results(tmp_path):
    """Their energies are those of the orbitals; a run that goes on from one has the whole energy."""
    path = tmp_path / "c.h5"
    solved("b2plyp", max_cycles=3, convergence="diis", checkpoint=path)
    with pytest.raises(FileError, match="restart"):
        load_result(path)
    whole = solved("b2plyp", restart=path)
    again = solved("b2plyp", restart=path)
    assert whole.energy == pytest.approx(solved("b2plyp").energy, abs=1e-9)
    assert again.energy == pytest.approx(whole.energy, abs=1e-9)


@pytest.mark.slow  # test_what_needs_its_derivatives_is_refused is quick
def test_numerical_forces_are_those_of_the_whole(tmp_path):
    """The analytic ones are refused with a line that names them."""
    h2 = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="6-31g")
    result = dftfd.run_scf(h2, "b2plyp", **TIGHT)
    forces = dftfd.numerical_forces(h2, "b2plyp", grid_level=0).values
    energies = [
        dftfd.run_scf(h2.at(h2.coordinates + [[0, 0, 0], [0, 0, d]]), "b2plyp", **TIGHT).energy for d in (-1e-3, 1e-3)
    ]
    assert forces[1, 2] == pytest.approx((energies[0] - energies[1]) / 2e-3, abs=1e-6)
    with pytest.raises(UnsupportedError, match="use numerical forces"):
        result.forces()


@slow  # a dozen SCFs; the refusal is quick
def test_the_command_gives_numerical_forces(capsys, tmp_path):
    """No analytic ones to compare with: `dftfd gradient --numerical` prints differences, and its file says energy."""
    file = tmp_path / "he.json"
    given = ["gradient", "He 0 0 0;", "--basis", "6-31g", "--xc", "b2plyp", "--grid-level", "0", "--json", str(file)]
    assert main([*given, "--numerical"]) == 0
    assert "by differences of the energy, forces" in capsys.readouterr().out
    assert json.loads(file.read_text())["driver"] == "energy"
    assert main([*given, "--overwrite"]) != 0 and "use numerical forces" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.hessian(),
        lambda r: r.polarizability(),
        lambda r: r.excitations(1),
        lambda r: r.parameter_gradient(),
        lambda r: r.to_pyscf(),
        lambda r: dftfd.energy(r.molecule, "b2plyp"),
        lambda r: dftfd.differentiable_scf(r.molecule, "b2plyp")(),
        lambda r: dftfd.optimize(r.molecule, "b2plyp"),
        lambda r: energies_on(r, "b2plyp"),
    ],
)
def test_what_needs_its_derivatives_is_refused(ask):
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "b2plyp", **TIGHT)
    with pytest.raises(UnsupportedError, match="double hybrid"):
        ask(helium)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "ROKS"}, "RKS or UKS"),
        ({"smearing": 0.01}, "full"),
        ({"occupations": [2, 2, 2, 2, 1, 1]}, "full"),
    ],
)
def test_orbitals_that_are_not_full_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        solved("b2plyp", **options)
    with pytest.raises(InputError, match="frozen_core"):
        solved("pbe", frozen_core=True)


def test_without_convergence_it_is_left_out():
    result = solved("b2plyp", max_cycles=2, convergence="diis")
    assert not result.converged and result.energies["pt2"] == 0.0
    assert any("left out" in step for step in result.steps)


@pytest.mark.slow  # test_energy_is_pyscfs and the commands of test_cli are quick
def test_command_line(capsys, tmp_path):
    path = tmp_path / "water.xyz"
    path.write_text("3\n\n" + BENT[0].replace("; ", "\n"))
    assert main(["run", str(path), "--xc", "b2plyp", "--frozen-core", "--basis", "sto-3g", "--grid-level", "0"]) == 0
    assert "perturbation theory" in capsys.readouterr().out
    assert main(["show", "b2plyp"]) == 0
    assert "+0.27 second-order perturbation theory" in capsys.readouterr().out
    assert main(["list", "--long", "b2plyp"]) == 0
    assert "27% PT2" in capsys.readouterr().out
