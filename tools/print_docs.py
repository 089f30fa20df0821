"""Prints the reference pages of docs/ from the code: ``python -m tools.print_docs``.

A test compares `PAGES` with the files in the tree.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.compare import comparison
from kdissect.analysis.question import Question
from kdissect.cli.help import ALL
from kdissect.cli.program import ANALYSES, COMMANDS, program
from kdissect.rules.catalogue import KINDS
from kdissect.tables.schemas import TABLES, Table
from tools.json_schema import schema_page
from tools.metrics_page import metrics_page
from tools.protocol_page import protocol_page
from tools.tutorial_page import tutorial_page

DOCS = Path(__file__).parent.parent / "docs"
HELP_WIDTH = 90
# Command → the function of the library that does the same, an anchor in docs/library.md.
TWINS = {
    "summary": ("kdissect.findings", "findings-and-a-summary"),
    "dissect": ("kdissect.write", "parquet-files"),
    "show": ("kdissect.dissect", "exchanges-one-by-one"),
    "table": ("kdissect.read", "one-table"),
    "spans": ("kdissect.spans.exporting.write_spans", "spans"),
    "slice": ("kdissect.write_slice", "a-slice"),
    "protocol": ("kdissect.protocol.apis.APIS", "the-protocol"),
    "tables": ("kdissect.tables.schemas.TABLES", "one-table"),
    "sql": ("kdissect.api.querying.query", "sql"),
    "tls-keys": ("kdissect.live.java_agent.load_agent", "tls-keys"),
    "completion": ("kdissect.cli.program.program", "the-command-line"),
    "report": ("kdissect.report.writing.write_report", "a-report"),
    "compare": ("kdissect.compare", "two-captures-compared"),
    "live": ("kdissect.watch", "live"),
    "spark": ("kdissect.spark.pipeline.dissect", "many-captures-with-spark"),
    "dataset": ("kdissect.dataset.maintenance.expire", "many-captures-with-spark"),
    "top": ("kdissect.live.counting.meters.Meters", "current-traffic"),
}


def analysis_page() -> str:
    """Insert the columns and options of each question into the page."""
    text = (DOCS / "analysis.md").read_text(encoding="utf-8")
    for question in (*QUESTIONS.values(), comparison.QUESTION):
        start, stop = f"<!-- {question.name}: start -->", f"<!-- {question.name}: stop -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(stop)
        text = "\n".join([before + start, "", *question_lines(question), "", stop + after])
    return text


def summary_page() -> str:
    """Insert the ids of findings into the page, the worst first."""
    before, after = "<!-- findings: start -->", "<!-- findings: stop -->"
    text = (DOCS / "summary.md").read_text(encoding="utf-8")
    head, _, rest = text.partition(before)
    lines = ["| id | reported when | what to do | more |", "|---|---|---|---|"]
    for id_, kind in KINDS.items():
        command = f"`kdissect {kind.command}`" if kind.command else ""
        lines.append(f"| `{id_}` | {kind.says} | {kind.next} | {command} |")
    _, _, tail = rest.partition(after)
    return "\n".join([head + before, "", *lines, "", after + tail])


def question_lines(question: Question) -> list[str]:
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in question.columns:
        meaning = column.meaning.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {column.type} | {column.unit} | {meaning} |")
    options = [*question.options, *[turn.option for turn in question.turns]]
    if options:
        names = [f"`--{option.name.replace('_', '-')}`" for option in options]
        lines += ["", f"Options: {', '.join(names)}; see `kdissect {question.name} --help`."]
    return lines


def tables_page() -> str:
    lines = [
        "# Tables",
        "",
        "Printed from `kdissect/tables/schemas.py` by `make docs`; do not edit.",
        "",
        "The library, `kdissect table` and Parquet files have the same columns.",
        "Times are `timestamp[ns, UTC]` of the capture clock, durations `int64` nanoseconds. Text",
        "is dictionary-encoded. Missing values are null.",
        "",
    ]
    lines += [f"- [{table.name}](#{table.name}): a row is {table.row}" for table in TABLES.values()]
    for table in TABLES.values():
        lines += ["", *table_section(table)]
    return "\n".join(lines) + "\n"


def table_section(table: Table) -> list[str]:
    asked = "" if table.is_default else " Written on request only."
    lines = [f"## {table.name}", "", f"A row is {table.row}.{asked}", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in table.columns:
        meaning = column.meaning.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {column.type} | {column.unit} | {meaning} |")
    return lines


def command_line_page() -> str:
    lines = [
        "# Command line",
        "",
        "Printed from the commands' own help by `make docs`; do not edit.",
        "",
        "Data goes to stdout, everything else to stderr. Exit codes: 0 success, even without",
        "rows; 1 something could not be read or written; 2 invalid command line; 3 `--fail-on`",
        "matched; 130 interrupted (the results so far are shown), 143 and 129 the same by SIGTERM",
        "and SIGHUP. A closed stdout is no error.",
        "",
        "This page shows `--help-all`; `--help` is a summary that fits a screen.",
        "",
        "## kdissect",
        "",
        *help_block(program, "kdissect"),
    ]
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        lines += ["", f"## kdissect {name}", "", *help_block(command, f"kdissect {name}")]
        if COMMANDS[name] == ANALYSES:
            twin, page = f'kdissect.analyse("{name}", ...)', f"analysis.md#{name}"
        else:
            twin, anchor = TWINS[name]
            page = f"library.md#{anchor}"
        lines += ["", f"In Python: [`{twin}`]({page})."]
        for part, inner in getattr(command, "commands", {}).items():
            title = f"kdissect {name} {part}"
            lines += ["", f"### {title}", "", *help_block(inner, title)]
    return "\n".join(lines) + "\n"


def help_block(command: click.Command, name: str) -> list[str]:
    settings = command.context_settings
    context = click.Context(command, info_name=name, terminal_width=HELP_WIDTH, **settings)
    context.meta[ALL] = True
    return ["```", *command.get_help(context).splitlines(), "```"]


# File name → function for the content of the page.
PAGES: Final[dict[str, Callable[[], str]]] = {
    "tables.md": tables_page,
    "command-line.md": command_line_page,
    "protocol.md": protocol_page,
    "analysis.md": analysis_page,
    "summary.md": summary_page,
    "metrics.md": metrics_page,
    "tutorial.md": tutorial_page,
    "json.schema.json": schema_page,
}


def main() -> None:
    for name, page in PAGES.items():
        path = DOCS / name
        text = page()
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
        print(path)


if __name__ == "__main__":
    main()
