"""The command cache: compiled programs that are kept for the next process."""

import os
import time
from typing import Annotated

import typer

from dftfd.cli.commands import app
from dftfd.errors import InputError

DAY, MB = 86400, 1e6


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
    older_than: Annotated[float | None, typer.Option(help="Remove those unused for this many days.")] = None,
):
    """Show or clear the compiled programs kept between runs."""
    from dftfd.runtime.kept_programs import cache_folder, cache_limit, forget, kept_programs

    if os.environ.get("DFTFD_CACHE_DIR") == "":
        print("no compiled programs are kept: DFTFD_CACHE_DIR is empty")
        return
    if older_than is not None and not older_than >= 0:
        raise InputError(f"--older-than {older_than:g}: a number of days expected.")
    if clear or older_than is not None:
        latest = time.time() - DAY * (older_than or 0)
        old = [program for program in kept_programs() if clear or program.used < latest]
        print(f"{len(old)} programs removed, {forget(old) / MB:.0f} MB")
    programs = kept_programs()
    size = sum(program.size for program in programs) / MB
    print(f"{len(programs)} programs, {size:.0f} MB of at most {cache_limit() / MB:.0f} MB, in {cache_folder()}")
    if programs:
        print(f"the oldest was last used {(time.time() - programs[0].used) / DAY:.1f} days ago")
