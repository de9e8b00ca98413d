"""The command completion: what a shell needs to complete commands, options, names of functionals and files.

The script is made from the commands themselves, so that it knows what they know. It is plain bash, without a call of
dftfd at each key; zsh runs it by its own bashcompinit. Where it has no answer the shell completes names of files.
"""

import re
from typing import Annotated

import typer

from dftfd.cli.commands import app
from dftfd.cli.listing import known_functionals
from dftfd.model.options import OPTIONS

_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
SHELLS = {"bash": "", "zsh": _ZSH}
_OF_FUNCTIONALS = {"xc", "name", "target", "reference", "compare"}
"""Options and arguments that are names of functionals."""

_FILES_COME_FIRST = {"file", "files"}
_WORDS = {
    "shell": " ".join(SHELLS),
    "basis": "sto-3g 3-21g 6-31g 6-311g cc-pvdz cc-pvtz cc-pvqz aug-cc-pvdz aug-cc-pvtz "
    "def2-svp def2-svpd def2-tzvp def2-tzvpd def2-tzvpp def2-qzvp def2-qzvpp",
    "unit": "angstrom bohr",
    "coordinates": "tric dlc hdlc prim tric-p cart",
    "xctype": "LDA GGA MGGA",
    "guess": "minao atom hueckel sap core",
}

_SCRIPT = """\
# Completion of dftfd for {shell}. For this shell: eval "$(dftfd completion {shell})"
{start}_dftfd() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="" options="" i
  local functionals="{functionals}"
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ "${{COMP_WORDS[i]}}" != -* ]]; then command="${{COMP_WORDS[i]}}"; break; fi
  done
  case "$command" in
{commands}
    *) COMPREPLY=($(compgen -W "{names} --help --version" -- "$cur")); return ;;
  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur")); fi
}}
complete -o default -F _dftfd dftfd
"""


@app.command()
def completion(shell: Annotated[str, typer.Argument(help=f"One of {', '.join(SHELLS)}.")] = "bash"):
    """Print the shell completion of commands and names.

    For one session: eval "$(dftfd completion bash)". For all: put that line into ~/.bashrc or ~/.zshrc.
    """
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r}: one of {', '.join(SHELLS)} expected.")
    print(script(shell), end="")


def script(shell: str) -> str:
    """The script for a shell."""
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {})
    own = [name for name in known_functionals() if ":" not in name]
    return _SCRIPT.format(
        shell=shell,
        start=SHELLS[shell],
        functionals=" ".join(own),
        commands="\n".join(_case(name, command) for name, command in commands.items()),
        names=" ".join(commands),
    )


def _case(name, command):
    """The branch of one command: its options, and what may follow those that take a value."""
    options = [p for p in command.params if p.param_type_name == "option"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    every = " ".join(flag for p in options for flag in (*p.opts, *p.secondary_opts))
    lines = [f"    {name})", f'      options="{every} --help"', '      case "$prev" in']
    by_reply: dict[str, list[str]] = {}
    for option in options:
        if not option.is_flag:
            by_reply.setdefault(_reply(option.name), []).extend(option.opts)
    lines += [f"        {'|'.join(flags)}) {reply}; return ;;" for reply, flags in by_reply.items()]
    lines.append("      esac")
    if arguments and (name := arguments[0].name) not in _FILES_COME_FIRST:
        lines.append(f'      if [[ "$cur" != -* ]]; then {_reply(name)}; return; fi')
    return "\n".join([*lines, "      ;;"])


def _reply(name) -> str:
    """What completes the value of an option or argument."""
    if name in _OF_FUNCTIONALS:
        return 'COMPREPLY=($(compgen -W "$functionals" -- "$cur") $(compgen -f -X "!*.py" -- "$cur"))'
    words = _WORDS.get(name) or (_one_of(OPTIONS[name].kind.expected) if name in OPTIONS else "")
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))' if words else ":"


def _one_of(expected):
    """The words of "one of 'auto', 'RKS'"."""
    return " ".join(re.findall(r"'([^']+)'", expected)) if expected.startswith("one of") else ""
