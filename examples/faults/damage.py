"""Checkpoints that are cut short or have a bit flipped: found, and answered by the previous generation.

python examples/faults/damage.py --save        200 truncations, 200 bit flips
"""

from common import OPTIONS, TOLERANCE, molecule, report, resumed, right_energy

import dftfd
from dftfd.errors import CheckpointError
from dftfd.results.checkpoint import previous_generation
from dftfd.runtime.progress import Progress


class Stop(Exception):
    """Ends a run in the middle."""


class StopAtCycle(Progress):
    """Ends a run when its fifth cycle is done."""

    def cycle(self, cycle):
        if cycle.number == 5:
            raise Stop


def cut(content, rng):
    """The file up to a random byte."""
    return content[: rng.integers(0, len(content))]


def flip(content, rng):
    """The file with one random bit changed."""
    changed, bit = bytearray(content), int(rng.integers(0, 8 * len(content)))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def damages(runs, folder, rng):
    """Figures of `runs` damaged files of each kind."""
    energy, worst, path = right_energy(), 0.0, folder / "run.chk"
    try:
        dftfd.run_scf(molecule(), **OPTIONS, checkpoint=path, progress=StopAtCycle())
    except Stop:
        pass
    content, older = path.read_bytes(), previous_generation(path)
    previous = older.read_bytes()
    figures = {"bytes of the file": len(content)}
    for name, damage in (("truncations", cut), ("bit flips", flip)):
        found = refused = right = 0
        for _ in range(runs):
            path.write_bytes(damage(content, rng))
            older.write_bytes(previous)
            result, said = resumed(path)
            found += len(said) == 1 and "The previous generation" in said[0]
            worst = max(worst, abs(result.energy - energy))
            right += result.converged and abs(result.energy - energy) < TOLERANCE
            older.unlink()
            try:
                resumed(path)
            except CheckpointError:
                refused += 1
        figures |= {name: runs, f"{name} found": found, f"{name} refused without previous": refused}
        figures[f"{name} resumed"] = right
    return {**figures, "largest error of an energy [hartree]": worst}


if __name__ == "__main__":
    report("damage", damages, 200)
