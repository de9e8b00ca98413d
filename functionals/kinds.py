"""Kinds of energy: exchange, correlation, both, kinetic."""

import re

KINDS = {"x": "exchange", "c": "correlation", "xc": "exchange-correlation", "k": "kinetic"}
"""Kinds of energy, as names in libxc's manner have them (gga_x_pbe), in words."""


def kind_of_name(name: str) -> str:
    """One of `KINDS`, or "" for a name that does not tell it."""
    found = re.search(r"(?:^|[_:])(x|c|xc|k)(?=_|$)", name)
    return found[1] if found else ""
