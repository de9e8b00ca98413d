"""What is printed for people: on a terminal lines end at words and what needs attention is in colour, elsewhere plain.

The variable NO_COLOR (https://no-color.org) and TERM=dumb keep colour away; output that goes to a file or a pipe is as
it is, line by line, so that scripts may read it.
"""

import os
import re
import shutil
import sys
import textwrap
from contextlib import ExitStack

from dftfd.runtime.plain_text import printable

RED, YELLOW, PLAIN = "\x1b[1;31m", "\x1b[33m", "\x1b[0m"
_ALARMING = re.compile(r"\b(NOT CONVERGED|FAILED|FAIL|PROBLEM)\b")
_DOUBTFUL = re.compile(r"\b(DOUBT|LEFT OUT|UNSTABLE)\b")


open_displays: list = []
"""Displays that are drawn on the terminal now and, until they are closed, again below whatever is printed."""


unprinted: list[OSError] = []
"""Why standard output takes no more: its reader has left, or the disk is full. Files are written all the same."""

computed: list = []
"""What the command has computed; of such a command the last line tells time and memory."""


def say(text: object = "", end: str = "\n") -> None:
    """Print what somebody asked for, on standard output; below a display that is open, which is closed for it."""
    with ExitStack() as stack:
        for display in [*open_displays]:
            stack.enter_context(display.paused())
        try:
            if not unprinted:
                print(for_terminal(str(text), sys.stdout), end=end, flush=True)
        except OSError as error:
            unprinted.append(error)


def warn(message: object) -> None:
    """One line of warning, on standard error."""
    _remark("warning", message, YELLOW)


def complain(message: object) -> None:
    """One line that says why a command has failed, on standard error."""
    _remark("error", message, RED)


def _remark(kind, message, colour):
    line = printable(" ".join(str(message).split()))
    if not sys.stderr.isatty():
        print(f"dftfd: {kind}: {line}", file=sys.stderr)
        return
    head, line = f"dftfd: {kind}:", wrapped(f"dftfd: {kind}: {line}")
    print(line.replace(head, f"{colour}{head}{PLAIN}", 1) if has_colour(sys.stderr) else line, file=sys.stderr)


def for_terminal(text: str, stream) -> str:
    """The text as the stream should have it; what it quotes of files and names is not obeyed."""
    text = printable(text)
    if not stream.isatty():
        return text
    return coloured(wrapped(text)) if has_colour(stream) else wrapped(text)


def has_colour(stream) -> bool:
    """Whether the stream is a terminal that has colour, and its user wants it."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Words that tell of something wrong in red, those of doubt in yellow."""
    return _DOUBTFUL.sub(f"{YELLOW}\\1{PLAIN}", _ALARMING.sub(f"{RED}\\1{PLAIN}", text))


def wrapped(text: str, width: int | None = None) -> str:
    """Lines longer than the terminal is wide go on, indented, in the next one; no word is broken."""
    width = shutil.get_terminal_size().columns if width is None else width
    return "\n".join(_folded(line, width) if len(line) > width else line for line in text.split("\n"))


def _folded(line, width):
    indent = len(line) - len(line.lstrip()) + 4
    if indent > width // 2:
        return line
    kept = line.replace(" = ", "\0=\0")  # an equation stays together
    options: dict = {"break_long_words": False, "break_on_hyphens": False, "tabsize": 1}
    return textwrap.fill(kept, width, subsequent_indent=" " * indent, **options).replace("\0", " ")
