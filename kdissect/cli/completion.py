"""``kdissect completion``: the script that makes a shell complete kdissect's words."""

import click

from kdissect.cli import options
from kdissect.cli.help import Choice, Command
from kdissect.cli.program import ANSWERED, COMPLETE, program

SHELLS = ("bash", "zsh", "fish")
# click's script for fish splits at every comma, also those of a list of columns.
WHOLE = ('string split ","', 'string split -m 1 ","')


@click.command(
    "completion",
    cls=Command,
    short_help="Completion for bash, zsh and fish.",
    epilog=options.examples(
        "kdissect completion bash",
        'eval "$(kdissect completion bash)"        in ~/.bashrc',
        'eval "$(kdissect completion zsh)"         in ~/.zshrc, behind compinit',
        "kdissect completion fish > kdissect.fish           in ~/.config/fish/completions",
    ),
)
@click.argument("shell", type=Choice(SHELLS), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Print the script for a shell: commands, options, files, columns, tables, APIs, dimensions.

    The shell then asks kdissect for each completion. Docs: install.md#completion.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101  # click has all three
    click.echo(found(program, {}, "kdissect", COMPLETE).source().rstrip().replace(*WHOLE))
    return ANSWERED
