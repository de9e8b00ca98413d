"""Shell completion: the printed script, run by real shells."""

import re
import shutil
import subprocess

import pytest

from dftfd.cli import main
from dftfd.cli.installation import script
from dftfd.functionals.registry import list_functionals

ASK = """
source {script}
ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _dftfd; echo "${{COMPREPLY[*]}}"; }}
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Words of a command line, the last one begun -> what bash offers."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "dftfd.sh").write_text(script("bash"))
    (folder / "own.py").touch()

    def offers(*words):
        quoted = " ".join(f"'{word}'" for word in ("dftfd", *words))
        code = ASK.format(script=folder / "dftfd.sh") + f"ask {quoted}"
        run = subprocess.run(["bash", "-u", "-c", code], capture_output=True, text=True, cwd=folder, check=True)
        assert not run.stderr
        return run.stdout.split()

    return offers


def test_commands_options_functionals_and_words(ask):
    assert {"run", "scan", "list", "completion", "--version"} <= set(ask(""))
    assert ask("opt") == ["optimize"]
    assert ask("run", "--dens") == ["--density-fit"] and "--no-density-fit" in ask("run", "--no-")
    assert ask("scan", "x.xyz", "--dih") == ["--dihedral"]
    assert ask("run", "x.xyz", "--xc", "pbes") == ["pbesol"] and ask("show", "own") == ["own.py"]
    assert ask("run", "--basis", "def2-qz") == ["def2-qzvp", "def2-qzvpp"]
    assert ask("run", "--method", "R") == ["RKS", "ROKS"] and ask("completion", "") == ["bash", "zsh"]
    assert not ask("run", "x") and not ask("run", "--charge", "")  # files are the shell's own
    assert set(ask("audit", "")) >= {name for name in list_functionals() if ":" not in name and name != "hf"}


def test_every_option_of_every_command_is_known(ask, capsys):
    """Against the help of each command, which the parser prints."""
    assert main(["--help"]) == 0
    commands = re.findall(r"^  ([a-z]+) ", capsys.readouterr().out.split("Commands:")[1], re.MULTILINE)
    assert len(commands) > 12
    for command in commands:
        assert main([command, "--help"]) == 0
        shown = re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
        assert shown and set(shown) <= set(ask(command, "-")), command


def test_bash_registers_it():
    run = subprocess.run(
        ["bash", "-c", 'eval "$(cat)"; complete -p dftfd'],
        input=script("bash"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["complete", "-o", "default", "-F", "_dftfd", "dftfd"] and not run.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_with_it(tmp_path):
    """In a terminal of its own: the word is completed where Tab is pressed."""
    (tmp_path / "dftfd.zsh").write_text(script("zsh").replace("&& compinit", "&& compinit -u -D"))
    code = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; source dftfd.zsh; echo ready"
zpty -r shell said "*ready*ready*"
zpty -n -w shell $'echo got: dftfd\b\b\b\b\b\b\b\b\b\b\\C-a\\C-kdftfd optim\t water.xyz --coord\t'
sleep 2
zpty -r shell said "*--coordinates*"
print -r -- "$said"
zpty -d shell
"""
    run = subprocess.run(
        ["zsh", "-f", "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert "optimize" in run.stdout and "--coordinates" in run.stdout


def test_an_unknown_shell(capsys):
    assert main(["completion", "fish"]) == 2
    assert "one of bash, zsh expected" in capsys.readouterr().err
    assert main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out
