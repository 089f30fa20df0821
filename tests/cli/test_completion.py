"""Completion, driven in real shells; and the man pages, rendered."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kdissect.cli.program import COMMANDS, program, run
from tools.man_pages import escaped, pages

CAPTURE = Path("captures/quickstart.pcapng").absolute()
ROOT = Path(__file__).parents[2]
# Word list → completions offered, and others that are not.
CASES = (
    ("kdissect lat", {"latency"}, {"lag"}),
    ("kdissect spark d", {"dissect"}, {"stream"}),
    ("kdissect latency --sor", {"--sort"}, {"--strict"}),
    ("kdissect latency --by api,cl", {"api,client_id", "api,client_ip"}, {"api,api"}),
    ("kdissect latency --columns p9", {"p90_ns", "p99_ns"}, {"max_ns"}),
    ("kdissect latency --sort max", {"max_ns"}, {"p99_ns"}),
    ("kdissect latency --where laten", {"latency_ns"}, {"api"}),
    ("kdissect latency --of que", {"queue"}, {"work"}),
    ("kdissect table exch", {"exchanges"}, {"errors"}),
    ("kdissect table errors --columns re", {"resource"}, {"request_packet"}),
    ("kdissect tables prob", {"problems"}, {"partitions"}),
    ("kdissect dissect --tables exchanges,pa", {"exchanges,partitions"}, {"exchanges,problems"}),
    ("kdissect protocol fetchs", {"FetchSnapshot"}, {"Fetch"}),
    ("kdissect upgrade --to 3.", {"3.9"}, {"2.8"}),
    ("kdissect completion f", {"fish"}, {"bash"}),
    ("kdissect capture", {"capture.pcap"}, set()),
    ("kdissect latency capture", {"capture.pcap"}, set()),
    ("kdissect latency --json capture", {"capture.pcap"}, set()),
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a capture, and a `kdissect` that runs these sources."""
    made = tmp_path_factory.mktemp("completion")
    (made / "bin").mkdir()
    program = made / "bin" / "kdissect"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kdissect "$@"\n')
    program.chmod(0o755)
    (made / "work").mkdir()
    (made / "work" / "capture.pcap").write_bytes(b"")
    return made


def offered(shell: str, line: str, place: Path) -> set[str]:
    """Completions of a line, as a shell requests them."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HOME": str(place), "TERM": "dumb",
        "LANG": "C.UTF-8",
    }  # fmt: skip
    said = subprocess.run(
        [shell, *STARTS[shell], SCRIPTS[shell], shell, line],
        cwd=place / "work", env=environment, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert not said.stderr.strip(), said.stderr
    return {word.split("\t")[0] for word in said.stdout.splitlines() if word}


STARTS = {
    "bash": ["--norc", "--noprofile", "-c"],
    "zsh": ["-f", "-c"],
    "fish": ["--no-config", "-c"],
}
SCRIPTS = {
    # As readline does: the function that `complete` names, with the words of the line; where it
    # offers nothing, its option `default` completes files.
    "bash": r"""
        eval "$(kdissect completion bash)"
        read -r -a COMP_WORDS <<<"$1"
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMP_LINE=$1 COMP_POINT=${#1}
        options=
        compopt() { options="$options $*"; }
        [[ $(complete -p kdissect) =~ -F\ ([^ ]+) ]]
        "${BASH_REMATCH[1]}" kdissect "${COMP_WORDS[COMP_CWORD]}" ""
        printf '%s\n' "${COMPREPLY[@]}"
        if [[ -z ${COMPREPLY[*]} && $options == *default* ]]; then
            compgen -f -- "${COMP_WORDS[COMP_CWORD]}"
        fi
    """,
    # zsh completes only in its editor, which zpty gives a terminal.
    "zsh": r"""
        zmodload zsh/zpty
        zpty shell zsh -f -i
        put() { zpty -w shell "$1" }
        put 'PS1=; stty -echo columns 200; autoload -U compinit; compinit -u'
        put 'eval "$(kdissect completion zsh)"; LISTMAX=1000'
        put 'zstyle ":completion:*" insert-tab false; setopt no_list_ambiguous no_beep'
        put 'compadd() { [[ " $* " == *" -O "* || " $* " == *" -D "* || " $* " == *" -A "* ]] || {
            local -a said; builtin compadd -O said "$@"; print -rl -- $said >> $HOME/said }
            builtin compadd "$@" }'
        rm -f $HOME/said
        put 'print READ''Y'
        while zpty -r shell line; do [[ $line == *READY* ]] && break; done
        zpty -wn shell "$1"$'\t'
        zmodload zsh/zselect
        for (( i = 0; i < 600; i++ )); do
            zselect -t 20
            zpty -rt shell line
            [[ -s $HOME/said ]] && break
        done
        zselect -t 100
        [[ -f $HOME/said ]] && cat $HOME/said
        zpty -d shell
    """,
    "fish": r"""
        kdissect completion fish | source
        complete --do-complete $argv[2]
    """,
}


@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("line", "expected", "missing"), CASES, ids=[one[0] for one in CASES])
def test_a_shell_completes(
    shell: str, line: str, expected: set[str], missing: set[str], place: Path
) -> None:
    found = offered(shell, line, place)
    assert expected <= found, found
    assert not missing & found, found


def test_the_variable_of_click_gives_the_same_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    monkeypatch.setenv("_KDISSECT_COMPLETE", "zsh_source")
    monkeypatch.setattr(sys, "argv", ["kdissect"])
    assert run() == 0
    assert capsys.readouterr().out == script


def test_there_is_a_man_page_for_every_command_and_option() -> None:
    made = pages()
    assert {f"kdissect-{name}.1" for name in COMMANDS} < made.keys()
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        for one in command.params:
            for option in one.opts if isinstance(one, click.Option) and not one.hidden else ():
                assert escaped(option) in made[f"kdissect-{name}.1"], (name, option)


@pytest.mark.slow
@pytest.mark.parametrize(
    "renderer", [["mandoc", "-T", "utf8"], ["man", "-l"]], ids=lambda one: one[0]
)
def test_the_man_pages_are_rendered_without_a_complaint(
    renderer: list[str], tmp_path: Path
) -> None:
    if shutil.which(renderer[0]) is None:
        pytest.skip(f"{renderer[0]} is not installed")
    environment = {**os.environ, "MANWIDTH": "80", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"}
    for name, text in pages().items():
        path = tmp_path / name
        path.write_text(text)
        if renderer[0] == "mandoc":
            lint = ["mandoc", "-T", "lint", "-W", "warning", path]
            said = subprocess.run(lint, capture_output=True, text=True, check=False)
            assert said.stdout == "", said.stdout
        done = subprocess.run(
            [*renderer, path], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == "", (name, done.stderr)
        shown = re.sub(r".\x08", "", done.stdout)
        assert "SYNOPSIS" in shown
        assert "\\" not in re.sub(r"\(broker-\\\\?d\+\)", "", shown), name
