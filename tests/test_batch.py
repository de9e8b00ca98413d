"""Batches: order, failures, records, processes that die, a Dask cluster that loses a worker."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

import dftfd
from dftfd.batch import processes, run_batch
from dftfd.batch.entries import Entry
from dftfd.cli import main
from dftfd.errors import FileError, InputError, InputWarning, ResourceError, warnings_named
from dftfd.system.geometry import split_frames

H2, HELIUM, NEON = "2\nhydrogen\nH 0 0 0\nH 0 0 0.74\n", "1\n\nHe 0 0 0\n", "1\n\nNe 0 0 0\n"
OPTIONS = {"xc": "hf", "density_fit": False, "molecule_options": {"basis": "sto-3g"}}


def stretched(n):
    """H2 at n bond lengths, as coordinates."""
    return [f"H 0 0 0; H 0 0 {0.6 + 0.01 * k:.2f}" for k in range(n)]


def test_outcomes_in_order_and_failures_among_them(tmp_path):
    """Paths, patterns, trajectories, texts and molecules; what is wrong with one is its own outcome, with its code.

    Energies are those of run_scf.
    """
    (tmp_path / "h2.xyz").write_text(H2)
    (tmp_path / "two.xyz").write_text(H2 + "\n" + HELIUM)
    molecule = dftfd.molecule("Ne 0 0 0;", basis="sto-3g")
    given = [
        tmp_path / "h2.xyz",
        "Xx 0 0 0;",
        str(tmp_path / "*.xyz"),
        "no.xyz",
        "input.json",
        ("noble", molecule),
        "He 0 0 0; H 0 0 1",
    ]
    seen = []
    outcomes = run_batch(given, **OPTIONS, on_outcome=lambda outcome, total: seen.append((outcome.number, total)))
    names = [outcome.name.removeprefix(f"{tmp_path}/") for outcome in outcomes]
    assert names == ["h2.xyz", "Xx 0 0 0;", "h2.xyz", "two.xyz@0", "two.xyz@1", "no.xyz", "input.json"] + [
        "noble",
        "He 0 0 0; H 0 0 1",
    ]
    assert [outcome.exit_code for outcome in outcomes] == [0, 2, 0, 0, 0, 5, 2, 0, 2]
    assert sorted(seen) == [(number, 9) for number in range(9)]
    expected = dftfd.run_scf(molecule, xc="hf", density_fit=False).energy
    assert outcomes[7].energy == pytest.approx(expected, abs=1e-10)
    assert outcomes[7].document["return_result"] == outcomes[7].energy
    assert outcomes[0].energy == outcomes[3].energy and "unknown element" in outcomes[1].error
    assert "QCSchema" in outcomes[6].error and "Run it alone" in outcomes[6].error
    assert "electrons" in outcomes[8].error and outcomes[8].energy is None


def test_not_converged_and_warnings_are_part_of_the_outcome():
    """Two cycles are too few for water: exit code 3, its energy is kept. Warnings belong to their molecule."""
    water = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
    (outcome,) = run_batch([water], **OPTIONS, max_cycles=1, convergence="diis")
    assert outcome.exit_code == 3 and not outcome.converged and outcome.energy < -70
    (outcome,) = run_batch(["He 0 0 0;"], "lda", molecule_options={"basis": "sto-3g"}, grid_level=1)
    assert outcome.error is None and "exchange alone" in outcome.warnings[0]


def test_molecules_with_options_of_their_own(tmp_path):
    """Those of a triple count before the batch's, and make another entry of the record; unknown ones end the batch."""
    record = tmp_path / "batch.jsonl"
    molecules = [("a", "He 0 0 0;"), ("b", "He 0 0 0;", {"xc": "lda,vwn"}), ("c", "He 0 0 0;", {"xc": "lda,vwn"})]
    a, b, c = run_batch(molecules, **OPTIONS, record=record)
    system = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    assert a.energy == pytest.approx(dftfd.run_scf(system, "hf", density_fit=False).energy, abs=1e-10)
    assert b.energy == c.energy == pytest.approx(dftfd.run_scf(system, "lda,vwn", density_fit=False).energy, abs=1e-10)
    assert len({json.loads(line)["key"] for line in record.read_text().splitlines()}) == 2
    before = record.read_text()
    run_batch(molecules, **OPTIONS, record=record)
    assert record.read_text() == before
    for wrong in ({"grid_levl": 1}, {"grid_level": -1}, {"checkpoint": "a.chk"}):
        with pytest.raises(InputError):
            run_batch([("a", "He 0 0 0;", wrong)], **OPTIONS)


def test_other_functionals_on_the_density_found(tmp_path):
    """E_hf[P_hf] is the energy itself; the record tells batches with other functionals apart."""
    record = tmp_path / "batch.jsonl"
    (outcome,) = run_batch([H2], **OPTIONS, also=["hf", "lda,vwn"], record=record)
    others = outcome.document["extras"]["dftfd"]["on_this_density"]
    assert others["hf"]["total"] == pytest.approx(outcome.energy, abs=1e-10)
    assert others["lda,vwn"]["xc"] < 0 and others["lda,vwn"]["exact_exchange"] == 0
    (plain,) = run_batch([H2], **OPTIONS, record=record)
    assert "on_this_density" not in plain.document["extras"]["dftfd"]
    with pytest.raises(InputError):
        run_batch([H2], **OPTIONS, also=["no_such"])


@pytest.mark.parametrize(
    "text, frames",
    [
        (H2 + HELIUM, 2),
        (H2 + "\n\n" + HELIUM + "\n", 2),
        (H2, 1),
        ("H 0 0 0\nH 0 0 0.74\n", 1),
        (H2 + "H 0 0 1.5\n" + HELIUM, 1),
        (H2 + "3\n\nH 0 0 0\n", 2),
        ("", 1),
    ],
)
def test_frames_are_cut_by_what_they_announce(text, frames):
    """An atom too many is not taken for a molecule of its own: the text stays whole, and is refused as a geometry."""
    cut = split_frames(text)
    assert len(cut) == frames
    if frames == 1:
        assert cut[0].rstrip() == text.rstrip()


def test_a_record_continues_where_the_batch_stopped(tmp_path, monkeypatch):
    """Interrupted after three of five, the third line cut short: the next run computes the last three, and once."""
    record, molecules = tmp_path / "batch.jsonl", stretched(5)

    def interrupt(outcome, total):
        if outcome.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(molecules, **OPTIONS, record=record, on_outcome=interrupt)
    text = record.read_text()
    assert text.count("\n") == 3
    record.write_text(text[:-40])
    computed = []
    run_scf = dftfd.run_scf
    monkeypatch.setattr("dftfd.batch.entries.run_scf", lambda *a, **k: computed.append(a) or run_scf(*a, **k))
    outcomes = run_batch(molecules, **OPTIONS, record=record)
    assert len(computed) == 3
    assert outcomes[0].document == json.loads(text.splitlines()[0])["document"]
    assert [json.loads(line)["number"] for line in record.read_text().splitlines()] == [0, 1, 2, 3, 4]
    run_batch(molecules, **OPTIONS, record=record)
    assert len(computed) == 3
    run_batch(molecules[:1], **OPTIONS | {"xc": "lda,vwn"}, record=record)
    run_batch(molecules[:1], **OPTIONS | {"molecule_options": {"basis": "6-31g"}}, record=record)
    assert len(computed) == 5


def test_records_that_are_refused(tmp_path):
    """Another file, one that another batch writes, options that JSON cannot hold."""
    other = tmp_path / "notes.txt"
    other.write_text("my notes")
    with pytest.raises(FileError, match="not a record"):
        run_batch(["He 0 0 0;"], record=other)
    other.write_text("my notes\n")
    with pytest.raises(FileError, match="not a record"):
        run_batch(["He 0 0 0;"], record=other)
    assert other.read_text() == "my notes\n"
    with pytest.raises(FileError, match="cannot write"):
        run_batch(["He 0 0 0;"], record=tmp_path / "no" / "batch.jsonl")
    record = tmp_path / "batch.jsonl"
    with pytest.raises(FileError, match="in use by another run"):
        run_batch(["He 0 0 0;"], **OPTIONS, record=record, on_outcome=lambda *_: run_batch([], record=record))
    guess = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), xc="hf")
    with pytest.raises(InputError, match="JSON can hold: SCFResult"):
        run_batch(["He 0 0 0;"], **OPTIONS, record=record, guess=guess)


def test_options_of_the_batch_as_a_whole():
    """Refused before anything is computed."""
    for jobs in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="jobs=.*: give a whole number of at least 1"):
            run_batch(["He 0 0 0;"], jobs=jobs)
    with pytest.raises(InputError, match="external_potential=.* cannot be sent to other processes; use jobs=1"):
        run_batch(["He 0 0 0;"], external_potential=lambda r: r[0], jobs=2)


@pytest.mark.parametrize(
    ("option", "value"),
    [("occupations", (1, 0)), ("broken_symmetry", (0,)), ("grid", (np.zeros((1, 3)), np.ones(1)))],
)
def test_what_numbers_orbitals_atoms_or_points_of_one_molecule_is_not_for_others(option, value):
    """Two occupied orbitals of He were given to Ne, which lost eight electrons. Frames of one molecule share them."""
    with pytest.raises(InputError, match=f"{option}= is for one molecule, and 'He 0 0 0;' and 'Ne 0 0 0;' are two"):
        run_batch(["He 0 0 0;", "Ne 0 0 0;"], **OPTIONS, **{option: value})
    with pytest.raises(InputError, match="is for one molecule; a benchmark"):
        dftfd.benchmark("quick", **{option: value})


def test_occupations_of_frames_and_of_each_molecule():
    kept = run_batch(["H 0 0 0; H 0 0 0.7", "H 0 0 0; H 0 0 0.8"], **OPTIONS, occupations=(2, 0))
    assert [outcome.error for outcome in kept] == [None, None]
    own = [("He", "He 0 0 0;", {"occupations": (2,)}), ("Be", "Be 0 0 0;", {"occupations": (2, 2)})]
    assert [outcome.converged for outcome in run_batch(own, **OPTIONS)] == [True, True]


@pytest.mark.slow
def test_a_process_that_is_killed_costs_no_molecule():
    """Every worker process is killed once while it computes: each molecule still has one outcome, the right one."""
    killed, seen, molecules = [], Counter(), stretched(6)

    def kill_all(outcome, total):
        seen[outcome.number] += 1
        if not killed:
            for child in multiprocessing.active_children():
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)

    outcomes = run_batch(molecules, **OPTIONS, jobs=2, on_outcome=kill_all)
    assert killed and seen == Counter(range(6))
    alone = run_batch(molecules, **OPTIONS)
    assert [outcome.energy for outcome in outcomes] == pytest.approx([o.energy for o in alone], abs=1e-10)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_processes_that_are_killed_while_they_start(monkeypatch):
    """Three kills before the first answer cost nothing; where every process is killed, the batch says so."""
    begun, last, begin = [], 3, processes._Worker.__init__

    def begin_and_die(worker, *given):
        begin(worker, *given)
        begun.append(worker)
        if len(begun) <= last:
            worker.process.kill()

    monkeypatch.setattr(processes._Worker, "__init__", begin_and_die)
    assert [outcome.exit_code for outcome in run_batch(stretched(3), **OPTIONS, jobs=2)] == [0, 0, 0]
    assert len(begun) == 5
    last = 99
    with pytest.raises(ResourceError, match="was ended by signal 9 before its first molecule"):
        run_batch(stretched(3), **OPTIONS, jobs=2)


FATAL = """
import os
from dftfd.batch.entries import Entry, Outcome
from dftfd.batch.processes import in_processes

def task(job):
    if job.name == "fatal":
        os._exit(9)
    return Outcome(job.number, job.name, -1.0, True, None, 0, 0.0)

if __name__ == "__main__":
    jobs = [Entry(number, name, None) for number, name in enumerate(["a", "fatal", "b", "c"])]
    for outcome in sorted(in_processes(task, jobs, 2), key=lambda outcome: outcome.number):
        print(outcome.name, outcome.exit_code, outcome.error)
"""


@pytest.mark.slow
def test_a_molecule_that_kills_its_process_is_reported(tmp_path):
    """It is tried twice, then failed with exit code 6; the others are not blamed. A script without guard says so."""
    script = tmp_path / "script.py"
    script.write_text(FATAL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines[0] == "a 0 None" and lines[2:] == ["b 0 None", "c 0 None"]
    assert lines[1].startswith("fatal 6 its process ended with code 9, 2 times")
    script.write_text("import dftfd\ndftfd.run_batch(['He 0 0 0;', 'Ne 0 0 0;'], 'hf', jobs=2)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "if __name__ == '__main__'" in done.stderr


ORPHANED = """
import os, signal, sys, time
from dftfd.batch.entries import Entry
from dftfd.batch.processes import in_processes

def task(job):
    open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
    time.sleep(600)

if __name__ == "__main__":
    if sys.argv[2] == "early":
        signal.setitimer(signal.ITIMER_REAL, 1)  # in the midst of the workers' imports
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    list(in_processes(task, [Entry(0, "a", None), Entry(1, "b", None)], 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["early", "at work"])
def test_processes_end_with_a_parent_that_was_killed(tmp_path, when):
    """Soon, not after what they do, and without a word: whoever holds standard error is gone."""
    script, pids = tmp_path / "script.py", tmp_path / "pids"
    script.write_text(ORPHANED)
    pids.mkdir()
    parent = subprocess.Popen([sys.executable, script, pids, when], stderr=subprocess.PIPE, text=True)
    if when == "at work":
        while len(list(pids.iterdir())) < 2 and parent.poll() is None:
            time.sleep(0.1)
        parent.kill()
    assert parent.communicate(timeout=60)[1] == ""  # ends when the last process that has it ends
    assert parent.returncode == -signal.SIGKILL and (when == "early" or len(list(pids.iterdir())) == 2)


def test_command_line_batch(tmp_path, capsys):
    """A line for each molecule as it comes, the count, the exit code of the first failure; the record holds results."""
    (tmp_path / "two.xyz").write_text(H2 + NEON)
    record = tmp_path / "batch.jsonl"
    arguments = ["run", f"{tmp_path}/two.xyz", "H 0 0 0;", "--xc", "hf", "--basis", "sto-3g", "--record", str(record)]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert "two.xyz@0  -1.11" in out and "two.xyz@1  -126.6" in out and "2 of 3 molecules converged" in out
    assert "FAILED: spin=0 does not fit" in out
    assert err == "dftfd: error: 1 of 3 molecules failed: 1 bad input.\n"
    assert record.read_text().count("\n") == 2
    assert main(["run", str(tmp_path / "two.xyz"), "--json", "x.json"]) == 2
    assert "--json is for one molecule" in capsys.readouterr().err


@pytest.mark.slow
def test_warnings_with_a_name_outlive_an_error():
    with pytest.warns(InputWarning, match="water: too long"), pytest.raises(InputError), warnings_named("water"):
        warnings.warn("too long", InputWarning, stacklevel=1)
        raise InputError("no basis")


def test_no_scheduler(capsys):
    """Where no scheduler answers, one line and exit code 6."""
    assert main(["run", "He 0 0 0;", "--scheduler", "tcp://127.0.0.1:1"]) == 6
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err


CLUSTER = """
import json, os, signal, sys
from distributed import Client, LocalCluster
import dftfd

def main():
    seen = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        pids = sorted(client.run(os.getpid).values())

        def kill_one(outcome, total):
            if not seen:
                os.kill(pids[0], signal.SIGKILL)
            seen.append(outcome.number)

        molecules = [f"H 0 0 0; H 0 0 {0.6 + 0.01 * k:.2f}" for k in range(12)] + ["Xx 0 0 0;"]
        options = {"molecule_options": {"basis": "sto-3g"}, "density_fit": False}
        outcomes = dftfd.run_batch(molecules, "hf", client=client, on_outcome=kill_one, **options)
        others = set(client.run(os.getpid).values()) != set(pids)
        kills, found = [], []

        def kill_another(step):
            if len(kills) < 2 and step.done > 3 * len(kills):
                kills.append(min(worker.pid for worker in cluster.workers.values() if worker.pid))
                os.kill(kills[-1], signal.SIGKILL)
            found.append(step.name)

        how = {"limit": 6, "basis": "sto-3g", "density_fit": False}
        table = dftfd.benchmark("w4-17", "hf", client=client, on_step=kill_another, **how)
    rows = zip(table.csv().splitlines(), dftfd.benchmark("w4-17", "hf", **how).csv().splitlines(), strict=True)
    differing = [pair for pair in rows if pair[0] != pair[1]]
    once = len(found) == len(set(found))
    alone = dftfd.run_batch(molecules, "hf", **options)
    error = max(abs(a.energy - b.energy) for a, b in zip(outcomes[:-1], alone[:-1]))
    print(json.dumps({"seen": seen, "codes": [o.exit_code for o in outcomes], "killed": others, "error": error,
                      "differing": differing, "once": once, "kills": len(kills)}))

if __name__ == "__main__":
    main()
"""


class _Future:
    """As Dask's, 'lost' while another worker computes again what a worker had finished before it died."""

    def __init__(self, number, times_lost):
        self.number, self.times_lost, self.status = number, times_lost, "finished"

    def done(self):
        return self.status == "finished"

    def result(self):
        return self.number


class _Arriving(list):
    """As Dask's as_completed: yields each future once it was done, and again where it is added."""

    add = list.append

    def __iter__(self):
        while self:
            future = self.pop(0)
            future.status, future.times_lost = "lost" if future.times_lost else "finished", future.times_lost - 1
            yield future


def test_what_a_worker_had_finished_before_it_died_is_not_lost(monkeypatch):
    monkeypatch.setattr(processes, "_distributed", lambda: SimpleNamespace(as_completed=_Arriving))
    times_lost = {0: 0, 1: 1, 2: 3}
    client = SimpleNamespace(
        submit=lambda task, entry, **how: _Future(entry.number, times_lost[entry.number]), cancel=lambda futures: None
    )
    entries = [Entry(number, "", None) for number in times_lost]
    assert sorted(processes.on_cluster(None, entries, client)) == [0, 1, 2]


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker(tmp_path):
    """Workers of a local Dask cluster are killed, two during a benchmark: nothing is lost, nothing counted twice."""
    pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(CLUSTER)
    one = os.environ | {"OMP_NUM_THREADS": "1"}  # as in workers: PySCF's sums over threads differ in their last bits
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, env=one)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert sorted(answer["seen"]) == list(range(13)) and answer["codes"] == [0] * 12 + [2]
    assert answer["killed"] and answer["error"] < 1e-10
    assert answer["kills"] == 2 and answer["differing"] == [] and answer["once"]
