"""The command read: what a formula in the notation of libxc's sources holds."""

from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import Debug, Verbose, app, messages


@app.command()
def read(
    file: Annotated[Path, typer.Argument(help="FILE.mpl, a formula in the notation of libxc's sources.")],
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Read a formula in libxc's notation, and say what it holds; FILE.mpl then stands wherever --xc does."""
    from dftfd.functionals.maple_files import described

    with messages(verbose, debug):
        print(described(file))
