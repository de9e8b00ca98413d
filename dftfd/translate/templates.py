"""Templates of source code: places @NAME@ and what stands in them, which is never looked at again."""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"@([A-Z_]+)@")


def substituted(template: str, values: Mapping[str, object]) -> str:
    """The template with each @NAME@ filled once: a functional may be called @TABLES@, and its name stays its name."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), template)
