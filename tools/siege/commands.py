"""Draws a command line from the commands and options that the program has.

A new option of the program is drawn from then on; one whose values are free text has some here, or
a test fails.
"""

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import click

from kdissect.cli.program import COMMANDS, program
from kdissect.tables.schemas import TABLES
from tools.siege import texts

# Spark reads captures by the same library: 10 s a command, see tests/spark. The others read none.
ELSEWHERE = frozenset({"spark", "dataset", "tables", "completion", "tls-keys"})
QUERIES = (
    "select * from exchanges", "select api, count(*) from exchanges group by api",
    "select * from errors join exchanges using (exchange_id) order by latency_ns desc limit 5",
    "select message from problems", "select * from connections where client_ip like '10.%'",
    "select client_id || chr(27) as x from exchanges", "copy exchanges to 'made.csv'",
)  # fmt: skip
KEYS = "keys"  # a file in the directory of the run
# Values of options with free text; hostile text, too.
VALUES: dict[str, tuple[str, ...]] = {
    "--max": (
        "connections=2", "reassembly_bytes=1000", "frame_bytes=500", "pending_requests=1",
        "decoded_bytes=2M", "unpacked_bytes=1000", "undecided_frames=1", "fragment_bytes=100",
        "tls_bytes=10", "unpacked_ratio=1", "idle_seconds=1",
    ),
    "--decode-as": ("9092=kafka", "9092=none", "9092=tls", "9092=0.7", "10.0.0.9:9092=proposal"),
    "--broker": ("10.0.0.9:9092", "[::1]:9092", "10.0.0.1:50000"),
    "--where": ("api = 'Fetch'", "error_code <> 0", "client_id like '%a%'", "api_key in (0, 1)"),
    "--having": ("1 = 1", "1 = 0"),
    "--sort": ("capture", "exchange_id:desc", "api,latency_ns:desc"),
    "--columns": ("capture", "exchange_id,connection_id,capture"),
    "--by": ("client", "broker", "client,broker"),
    "--of": ("latency", "errors"),
    "--window": ("1s", "1h", "10ms", "1d"),
    "--least-time": ("1ms", "0s"),
    "--quiet": ("1s", "1ms"),
    "--timeout": ("1s", "1m"),
    "--anonymize-key": (KEYS,),
    "--context": ("1s", "10ms"),
    "--before": ("10s", "500ms"),
    "--after": ("10s", "500ms"),
    "--at": ("2023-11-14T22:13:20.1Z", "1s"),
    "--tables": (",".join(TABLES), "exchanges", "exchanges,records,bodies"),
    "--snaplen": ("64",),
    "--rotate": ("1s", "64KB"),
    "--disk": ("1MB",),
    "--flush": ("1s",),
    "--max-cpu": ("1", "100"),
    "--max-memory": ("300M", "1G"),
    "--every": ("1s",),
    "--findings": ("1s", "1m"),
    "--interval": ("1s", "100ms"),
    "--keylog": (KEYS,),
}  # fmt: skip
# Options that are not drawn, each with its reason.
LEFT_OUT = {
    "-o": "drawn apart: a file or a directory of the run",
    "-i": "needs an interface: see `peers`",
    "--filter": "of an interface", "--promiscuous": "of an interface",
    "--all-ports": "of an interface", "--through": "of an interface",
    "--sample": "of an interface", "--netns": "of an interface", "--with": "of an interface",
    "--buffer": "of an interface", "--workers": "of an interface",
    "--user": "of an interface, and gives rights up",
    "--follow": "waits for more without an end: see `peers`",
    "--metrics": "a port that others may have: see `peers`",
    "--topic-names-from": "log directories of a broker", "--record": "a file that is there once",
    "--otlp": "sends metrics over a network",
    "--webhook": "a port that others may have", "--webhook-allow": "hosts of --webhook",
    "--duration": "the end of a file ends it", "--every": "ends by a signal only",
    "--serve": "ends by a signal only", "--serve-port": "a port that others may have",
    "--endpoint": "sends spans over a network", "--master": "of Spark",
    "--progress": "draws a bar over its own line, with a carriage return",
    "--rollups": "of datasets that Spark makes",
    "--help": "prints a page that is the same whatever is captured",
}  # fmt: skip
# The same of one command: for datasets and directories of live captures, not for files.
NOT_OF = {"report": frozenset({"--by"})}
NOT_CHOSEN = frozenset({"spark"})  # an engine: see ELSEWHERE
MOST = 1_000  # of a number
NEEDS_OUTPUT = frozenset({"dissect", "slice", "report"})
# Options that `live` takes only with files.
OF_FILES = frozenset({
    "--rotate", "--keep", "--disk", "--flush", "--tables", "--records", "--payload", "--bodies",
})  # fmt: skip
# A few commands print captured data field by field, which is most error-prone.
OFTEN = ("table", "show", "table", "show", "live", "spans")
PAYLOAD = "--payload"
BINARY = frozenset({"parquet", "proto"})  # formats that are no text
# Records of a message that are unpacked when payload is printed: 22 copies of them are made.
UNPACKED = "unpacked_bytes=8M"


class Line(NamedTuple):
    """A command with its words; `format` of its stdout, `output` a file that it writes."""

    command: str
    words: tuple[str, ...]
    format: str
    output: str = ""

    @property
    def has_payload(self) -> bool:
        """Return whether bytes of records, or whole packets, are written."""
        return PAYLOAD in self.words or self.command == "slice"


def names() -> list[str]:
    """The commands that are drawn."""
    return [name for name in COMMANDS if name not in ELSEWHERE]


@cache
def command_of(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


def options_of(name: str) -> Iterator[click.Option]:
    """Draw commands."""
    for option in command_of(name).params:
        words = LEFT_OUT.keys() | NOT_OF.get(name, frozenset())
        if isinstance(option, click.Option) and not words & set(option.opts):
            yield option


def draw_line(file: str, protocol: str, source: random.Random) -> Line:
    """A command that reads `file`, with drawn options."""
    name = source.choice(names() if source.random() < 0.7 else OFTEN)
    words = [name]
    if name == "table":
        words.append(source.choice(list(TABLES)))
    elif name == "compare":
        words.append(file)
    elif name == "protocol":
        return protocol_line(source)
    for option in options_of(name):
        words += drawn(option, source)
    if "--protocol" not in words and protocol != "auto" and name != "live":
        words += ["--protocol", protocol]
    if PAYLOAD in words:
        words += ["--max", UNPACKED]
    format_ = format_of(words)
    if (name, format_) == ("spans", "json"):
        format_ = "jsonl"  # a document for each part, as OpenTelemetry's file exporter has it
    output = ""
    needs = name in NEEDS_OUTPUT or (name == "live" and OF_FILES & set(words))
    if needs or format_ == "parquet" or (has_output(name) and source.random() < 0.2):
        output = output_of(name, format_, source)
        words += ["-o", output]
    if name == "sql":
        query = texts.text(source)[:1000] if source.random() < 0.2 else source.choice(QUERIES)
        return made(name, [*words, "--", file, query], format_, output)
    # Words of options may not be taken for files, nor a file for an option.
    return made(name, [*words, "--", file], format_, output)


def made(name: str, words: list[str], format_: str, output: str = "") -> Line:
    """The command line; a word ends at a zero byte, so no word has one."""
    return Line(name, tuple(word.replace("\0", "") for word in words), format_, output)


def protocol_line(source: random.Random) -> Line:
    """Command that reads no capture: a name, or the list of all."""
    format_ = source.choice(("table", "json", "jsonl", "csv", ""))
    if format_:
        return made("protocol", ["protocol", "--format", format_], format_)
    words = ["protocol", "--", source.choice(("Fetch", "0", texts.text(source)[:1000]))]
    return made("protocol", words, "")


def drawn(option: click.Option, source: random.Random) -> list[str]:
    """An option with a value, mostly nothing."""
    name = next((one for one in option.opts if one.startswith("--")), option.opts[0])
    if option.is_flag:
        return [name] if source.random() < (0.05 if name == "--strict" else 0.2) else []
    kind = option.type
    if name == "--format":
        choices = choices_of(kind)
        return [name, source.choice(choices)] if source.random() < 0.8 else []
    # Columns and conditions are of one command; here they are mostly errors of usage.
    if source.random() > (0.02 if name in ("--columns", "--where", "--at") else 0.08):
        return []
    if isinstance(kind, click.Choice):
        return [name, source.choice(choices_of(kind))]
    if isinstance(kind, click.IntRange | click.FloatRange):
        least, most = int(kind.min or 0), int(kind.max or MOST)
        # More processes than two are more of the same.
        most = 2 if name == "--jobs" else most
        return [name, str(source.randint(least, max(least, min(most, least + MOST))))]
    if source.random() < 0.05:
        return [name, texts.text(source)[:1000]]
    return [name, source.choice(VALUES[name])]


def choices_of(kind: click.ParamType) -> list[str]:
    assert isinstance(kind, click.Choice)
    return [str(one) for one in kind.choices if one not in NOT_CHOSEN]


def format_of(words: list[str]) -> str:
    """Format of stdout: the last option given, else the default in a pipe."""
    by_format = words.index("--format") if "--format" in words else -1
    by_json = words.index("--json") if "--json" in words else -1
    if by_format > by_json:
        return words[by_format + 1]
    # `live` and `top` print a document a line.
    return "json" if by_json >= 0 and words[0] not in ("live", "top") else ""


def has_output(name: str) -> bool:
    return any("-o" in option.opts for option in command_of(name).params)


def output_of(name: str, format_: str, source: random.Random) -> str:
    if name in ("dissect", "live"):
        return "made"
    if name == "report":
        return "made.html"
    if name == "slice":
        return f"made.{format_ or source.choice(('pcap', 'pcapng'))}"
    endings = {"json": "json", "jsonl": "jsonl", "csv": "csv", "parquet": "parquet"}
    return f"made.{endings.get(format_) or source.choice(('csv', 'parquet', 'jsonl'))}"
