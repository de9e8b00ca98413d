"""The verdict over those reactions of a set that a record has all molecules of: python data/verdicts/partial.py ...

Arguments: set, functional, basis set, record, output file, where the set lies. For runs that were ended: nothing is
computed, and how far they came stands in the table.
"""

import json
import sys

import dftfd
from dftfd.benchmarks import read_set


def main(name, xc, basis, record, output, data=None):
    found = read_set(name, data)
    done = {json.loads(line)["name"].rpartition(" / ")[0] for line in open(record)}
    atoms = {found.species[one].atoms for one in done if one in found.species}
    complete = lambda reaction: all(found.species[one].atoms in atoms for one, _ in reaction.stoichiometry)
    part = found.of(reaction for reaction in found.reactions if complete(reaction))
    print(f"{len(part.reactions)} of {len(found.reactions)} reactions")
    verdict = dftfd.benchmark(part, xc, basis=basis, record=record)
    print(verdict, f"{verdict.seconds(xc):.0f} s")
    verdict.write(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
