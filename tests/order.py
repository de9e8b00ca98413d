"""Tests in random order: --order SEED. An equal seed gives an equal order, of the files and inside of each."""

import random
from itertools import groupby


def pytest_addoption(parser):
    parser.getgroup("ledger").addoption("--order", type=int, metavar="SEED", help="tests in random order, file by file")


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("order")
    if seed is None:
        return
    draw = random.Random(seed)
    files = [list(group) for _, group in groupby(items, key=lambda item: item.nodeid.split("::")[0])]
    draw.shuffle(files)
    for tests in files:
        draw.shuffle(tests)
    items[:] = [item for tests in files for item in tests]
