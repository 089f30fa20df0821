import json
import signal
import subprocess
import sys
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest

from kdissect.cli.environment import is_compiled, version_text
from kdissect.cli.options import FORMATS
from kdissect.cli.program import ANALYSES, COMMANDS, program, run

PIPE_CAPACITY = 65_536
HEAVY = ("numpy", "pyarrow", "pandas", "duckdb", "rich", "dpkt", "zstandard", "lz4")
SLOW = ("pandas", "pyarrow.compute", "numpy.ma", "duckdb", "kdissect.dataset.runs")


def kdissect(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kdissect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kdissect.cli.program import run; run(['--help']);"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_includes_whether_it_is_compiled() -> None:
    kind = "(compiled)" if is_compiled() else "(plain Python)"
    assert kdissect("--version").stdout == version_text() + "\n"
    assert kind in version_text()


def test_a_file_alone_is_summarised(quickstart: str) -> None:
    assert kdissect(quickstart).stdout == kdissect("summary", quickstart).stdout


def test_options_before_the_file_are_those_of_the_summary(quickstart: str) -> None:
    done = kdissect("--format", "json", quickstart)
    assert done.stdout.startswith("{")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_and_a_short_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    assert f"Examples:\n    kdissect {'' if command == 'summary' else command}" in (
        capsys.readouterr().out
    )


def test_a_misspelled_command_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sumary", "x.pcap"]) == 2
    assert "Did you mean 'summary'?" in capsys.readouterr().err


def test_a_missing_file_is_an_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nowhere.pcap"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kdissect: ")
    assert "nowhere.pcap" in error
    assert error.count("\n") == 1


def test_error_for_a_file_that_is_no_capture_describes_its_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.pcap"
    path.write_text("<!DOCTYPE html><html></html>")
    assert run([str(path)]) == 1
    assert "HTML" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_success(quickstart: str) -> None:
    command = f"{sys.executable} -m kdissect show {quickstart}; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -n 1"], capture_output=True, text=True, check=True
    )
    assert done.stderr == "code 0\n"
    assert done.stdout.count("\n") == 1


def test_control_c_prints_partial_results_and_exits_with_130(quickstart: str) -> None:
    content = Path(quickstart).read_bytes()
    assert len(content) > 2 * PIPE_CAPACITY
    command = [sys.executable, "-m", "kdissect", "-", "--format", "json"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Background jobs inherit an ignored SIGINT, so whoever runs the tests in the background has
        # it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # When all is written, the reader must have taken more than half of it.
        process.stdin.write(content)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
    assert process.returncode == 130
    assert json.loads(output)["is_interrupted"]


def test_an_empty_result_explains_itself_and_ends_with_0(quickstart: str) -> None:
    done = kdissect("table", "exchanges", quickstart, "--where", "api_key = 999")
    assert (done.returncode, done.stdout) == (0, "")
    assert "No row passes --where 'api_key = 999'" in done.stderr


def test_a_wrong_condition_is_an_error(quickstart: str) -> None:
    done = kdissect("table", "exchanges", quickstart, "--where", "no_such_column = 1")
    assert done.returncode == 2
    assert "no_such_column" in done.stderr


def test_a_table_in_a_pipe_is_json_lines(quickstart: str) -> None:
    done = kdissect(
        "table", "exchanges", quickstart, "--columns", "api,api_version", "--limit", "1"
    )
    assert done.stdout == '{"api": "ApiVersions", "api_version": 4}\n'
    assert done.stderr == ""


def test_a_capture_comes_from_stdin_too(quickstart: str) -> None:
    command = [sys.executable, "-m", "kdissect", "table", "exchanges", "-", "--columns=api"]
    with Path(quickstart).open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert (
        done.stdout
        == kdissect("table", "exchanges", quickstart, "--columns", "api").stdout.encode()
    )


def test_dissect_writes_a_file_for_each_table_and_refuses_to_overwrite(
    quickstart: str, tmp_path: Path
) -> None:
    done = kdissect("dissect", quickstart, "-o", str(tmp_path), "--tables", "exchanges,errors")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "errors.parquet",
        "exchanges.parquet",
    ]
    again = kdissect("dissect", quickstart, "-o", str(tmp_path), "--tables", "exchanges")
    assert again.returncode == 2
    assert "--force" in again.stderr
    forced = kdissect("dissect", quickstart, "-o", str(tmp_path), "--force")
    assert forced.returncode == 0
    assert len(list(tmp_path.iterdir())) == 7


def test_show_gives_as_many_exchanges_as_were_asked_for(quickstart: str) -> None:
    done = kdissect("show", quickstart, "--limit", "2", "--format", "jsonl")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 2


def test_keys_and_values_are_shown_only_with_payload(quickstart: str) -> None:
    arguments = ("show", quickstart, "--where", "api = 'Produce'", "--limit", "1")
    assert " value: " not in kdissect(*arguments).stdout
    assert " value: " in kdissect(*arguments, "--payload").stdout


def test_a_page_does_not_wait_for_duckdb_where_its_tables_are_small(quickstart: str) -> None:
    quiet = str(Path(quickstart).parent / "tls" / "tls13-4.3.1.pcapng")
    for words in ([quiet], [quickstart], [quickstart, "--findings", "none"]):
        code = (
            "import sys; from kdissect.cli.program import run;"
            f"run({words!r}); print('duckdb' in sys.modules, 'ibis' in sys.modules)"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False False"


def test_summary_and_dissect_import_no_slow_modules(quickstart: str, tmp_path: Path) -> None:
    counted = [quickstart, "--findings", "none"]
    arguments = counted, ["dissect", quickstart, "-o", str(tmp_path / "tables")]
    code = (
        "import sys; from kdissect.cli.program import run;"
        f"run(sys.argv[1:]); print([name for name in {SLOW} if name in sys.modules])"
    )
    for words in arguments:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


ENDING = """
import atexit, sys
{before}
from kdissect.cli import main
code = main()
atexit.register(print, "after")
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [("", ["after"]), ("atexit.register(print, 'before')", ["after", "before"])],
)
def test_the_process_ends_after_all_exit_handlers_and_with_all_output(
    before: str, told: list[str], quickstart: str
) -> None:
    program = [sys.executable, "-c", ENDING.format(before=before)]
    for words, code in (([quickstart], 0), (["missing.pcap"], 1)):
        done = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert done.stdout.splitlines()[-len(told) :] == told
        assert len(done.stdout.splitlines()) > len(told) or code


def test_the_library_leaves_the_cycle_collector_as_it_is() -> None:
    code = (
        "import gc; before = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count();"
        "import kdissect; kdissect.write, kdissect.read, kdissect.dissect;"
        "print(before == (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("command", ["summary", "table", "show", "dissect"])
def test_every_command_has_the_port_options(command: str, quickstart: str, tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "tables")]
    more = {"table": ["connections", quickstart], "dissect": [quickstart, *output]}
    arguments = [command, *more.get(command, [quickstart])]
    told = kdissect(*arguments, "--decode-as", "9092=none", "--decode-as", "127.0.0.1:1=tls")
    assert told.returncode == 0
    if command == "table":
        assert {json.loads(line)["protocol"] for line in told.stdout.splitlines()} == {"excluded"}
    else:
        assert "connections of protocol excluded" in told.stderr
    wrong = kdissect(*arguments, "--decode-as", "9092=html")
    assert wrong.returncode == 2
    assert "no protocol 'html' in '9092=html'; there are: kafka, 0.7" in wrong.stderr
    wrong = kdissect(*arguments, "--broker", "localhost:9092")
    assert wrong.returncode == 2
    assert "'localhost:9092' is not address:port" in wrong.stderr


@pytest.mark.parametrize(
    "name", [name for name, module in COMMANDS.items() if module in ("table", "protocol", ANALYSES)]
)
def test_every_command_that_prints_a_table_has_the_same_formats(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    there = {parameter.name: parameter for parameter in command.params}
    assert tuple(there["format_"].type.choices) == FORMATS  # type: ignore[attr-defined]
    assert {"path", "force"} <= there.keys()


@pytest.mark.parametrize("words", [["latency"], ["table", "errors"]])
def test_a_file_without_rows_can_be_read(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    capture = "captures/telemetry-4.3.1.pcapng"
    assert run([*words, capture, "--where", "1 = 0", "-o", str(path)]) == 0
    assert pq.read_table(path).num_rows == 0
