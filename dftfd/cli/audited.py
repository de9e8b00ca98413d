"""The command audit-code: whether a program is consistent with itself."""

import json as json_format
import sys
from pathlib import Path
from typing import Annotated

import typer

from dftfd.cli.commands import CHECK_FAILED, Debug, Verbose, app, messages, refuse_existing
from dftfd.cli.option_types import functional_named
from dftfd.cli.terminal import say
from dftfd.errors import InputError


@app.command()
def audit_code(
    target: Annotated[
        str,
        typer.Argument(
            help="dftfd; psi4; nwchem; FILE.toml, an executable with its input; qcengine:PROGRAM:METHOD:BASIS; or "
            "FILE.py:NAME, module:NAME of an ASE calculator, of code that makes one, of code Mole -> mean field of "
            "PySCF, or of a target (docs/audit_code.md). FILE.py is executed."
        ),
    ],
    molecule: Annotated[
        list[str] | None,
        typer.Option(help="water, NH2, coordinates or an xyz file, may be repeated; default: water and NH2."),
    ] = None,
    check: Annotated[list[str] | None, typer.Option(help="A check, may be repeated; default: all.")] = None,
    basis: Annotated[str | None, typer.Option(help="Basis set, where the target takes one.")] = None,
    xc: Annotated[
        str | None, typer.Option(help="Functional of dftfd (default: pbe), method of psi4, nwchem, FILE.toml.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    output: Annotated[
        list[Path] | None, typer.Option(help="Write the audit to this file, .json or .html; may be repeated.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    verbose: Verbose = False,
    debug: Debug = False,
):
    """Compare the forces of another program with its energies.

    Forces, Hessians, dipoles against differences, sums, symmetry, equivalent inputs; exit code 1 where they disagree.
    """
    from dftfd.interop.asked_program import ProgramTarget
    from dftfd.verify.code_audit import as_target
    from dftfd.verify.code_audit import audit_code as audit
    from dftfd.verify.code_own import OwnTarget

    refuse_existing(output or [], overwrite, ".json", ".html")
    with messages(verbose, debug):
        asked = OwnTarget(functional_named(xc)) if xc is not None and target == "dftfd" else as_target(target)
        if isinstance(asked, ProgramTarget) and xc is not None:
            asked = asked.of("method", xc)
        elif xc is not None and target != "dftfd":
            raise InputError("--xc is for dftfd, psi4, nwchem and FILE.toml; other targets have their own methods.")
        if basis is not None:
            asked = asked.in_basis(basis)
        report = audit(asked, molecule or None, check or None, None if quiet else _tell)
    for path in output or ():
        report.write(path)
    if json:
        print(json_format.dumps(report.to_json(), indent=1))
    else:
        say(report)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)


def _tell(line):
    print(f"dftfd: {line}", file=sys.stderr, flush=True)
