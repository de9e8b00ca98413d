"""Which slow cases run on a day, and tests in random order: --order SEED.

`@pytest.mark.one_in(K)`: of the slow cases of a test every K-th, beginning elsewhere each day, so that K days in a row
have all. With of="NAME" the tests that say so are cases of one. DFTFD_NIGHT=all, -k and tests named on the command line
leave none out; DFTFD_NIGHT=NUMBER repeats a day.

An equal seed gives an equal order, of the files and inside of each.
"""

import os
import random
from datetime import date
from itertools import groupby

import pytest

_asked = os.environ.get("DFTFD_NIGHT")
EVERY_DAY = _asked == "all"
NIGHT = date.today().toordinal() if not _asked or EVERY_DAY else int(_asked)


def pytest_addoption(parser):
    parser.getgroup("ledger").addoption("--order", type=int, metavar="SEED", help="tests in random order, file by file")


def pytest_report_header():
    return f"DFTFD_NIGHT={'all' if EVERY_DAY else NIGHT}"


@pytest.hookimpl(tryfirst=True)  # cases are counted before -m and --resume take some away
def pytest_collection_modifyitems(config, items):
    if not (EVERY_DAY or config.option.keyword or any("::" in word for word in config.args)):
        others = set(left_to_other_days(items, NIGHT))
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    seed = config.getoption("order")
    if seed is not None:
        items[:] = in_random_order(items, seed)


def left_to_other_days(items, night) -> list:
    """Slow cases of tests with the mark one_in that are not of this day."""
    seen: dict[str, int] = {}
    others = []
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark and item.get_closest_marker("slow"):
            name = mark.kwargs.get("of") or item.nodeid.split("[")[0]
            seen[name] = number = seen.get(name, -1) + 1
            if (number - night) % mark.args[0]:
                others.append(item)
    return others


def in_random_order(items, seed) -> list:
    draw = random.Random(seed)
    files = [list(group) for _, group in groupby(items, key=lambda item: item.nodeid.split("::")[0])]
    draw.shuffle(files)
    for tests in files:
        draw.shuffle(tests)
    return [item for tests in files for item in tests]
