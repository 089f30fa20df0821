"""Forbidden uses of data: executing it, following its names, pasting it into SQL.

Enforced on the syntax tree of the package. A module with a reason is listed with it; a list with
superfluous entries fails, too.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import kdissect

PACKAGE = Path(kdissect.__path__[0])
Found = dict[str, set[str]]

RUNNING = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib",
           "yaml", "ruamel", "jsonpickle", "code", "codeop", "runpy"}  # fmt: skip
IMPORTS_WITH_A_REASON = {
    # Pipes between a process and those it has started, for one run; nothing is in a file.
    "checkpoint/worker_pool.py": {"pickle"},
    # Pairs of sockets between a process and those it has forked, with the same privileges.
    "live/workers/messages.py": {"pickle"},
}
CALLS_WITH_A_REASON = {
    # Readers of layouts, written out from the package's own schema; no data is in the source.
    "messages/generated_code.py": {"exec", "compile"},
    # Writers of rows, written out from the declared columns.
    "tables/row_writers.py": {"exec", "compile"},
    # Names of modules from tables in the code.
    "__init__.py": {"import_module"},
    "cli/live/imports.py": {"import_module"},
    "cli/program.py": {"import_module"},
    "dataset/rollup_rows.py": {"import_module"},
}
RUN_CALLS = {"eval", "exec", "compile", "__import__", "import_module", "read_pickle", "to_pickle",
             "allow_pickle", "unsafe_load", "full_load"}  # fmt: skip

JSON_WITH_A_REASON = {
    "system/strict_json.py": "the one parser of files",
    "exchanges/sasl.py": "claims of a token on the wire, of bounded size; any error is caught",
    "messages/group_protocols.py": "metadata of a member on the wire; any error is caught",
    "rules/preconditions.py": "a file of the package",
    "rules/compiled_sql.py": "a file of the package",
    "spark/source.py": "an option of Spark's `load`, which the user gives",
    "spark/stream_source.py": "options that `stream` has made",
    "sql/conditions.py": "what DuckDB says of a condition",
    "sql/queries.py": "what DuckDB says of a query",
}

# Calls that make, change, move or remove a file or a directory.
CHANGES = {
    "unlink", "rmdir", "remove", "removedirs", "rename", "renames", "rmtree", "symlink_to",
    "hardlink_to", "symlink", "link", "chmod", "chown", "write_text", "write_bytes", "truncate",
    "ftruncate", "mkdir", "makedirs", "mkdtemp", "mkstemp", "TemporaryDirectory",
    "NamedTemporaryFile", "copytree", "copyfile", "copy2", "OSFile", "ParquetWriter", "mkfifo",
    "replace", "open for writing", "os.open", "delete_file", "delete_dir", "delete_dir_contents",
}  # fmt: skip
CHANGES_WITH_A_REASON: dict[str, str] = {
    "cli/tls_keys.py": "a new key log, named by the user, for one user alone",
    "live/recorded_sessions.py": "a new file, named by the user, never one that is there",
    "report/site.py": "makes the directory that -o names; its files are written aside and renamed",
    "system/confined.py": "the checker: below a directory, by descriptors, without links",
    "analysis/engines/answer_buckets.py": "no file: a part of an expression",
    "sql/connections.py": "what DuckDB has spilled into the directory of a Spark executor, by name",
    "sql/separate_statements.py": "no file: a part of a query",
    "sql/spilled_percentiles.py": "no file: parts of a query",
    "sql/window_statements.py": "no file: parts of a query",
    "api/answers.py": "a temporary directory of its own",
    "cli/completion.py": "no file: text of a script",
    "cli/help.py": "no file: text of a help page",
    "cli/output.py": "the file that the user names",
    "cli/sql_prompt.py": "the history of the user's queries, in the user's own state directory",
    "cli/standard_streams.py": "opens /dev/null",
    "cli/top/terminal.py": "opens the terminal",
    "messages/body_texts.py": "no file: cuts a text that is being written",
    "live/files/budget.py": "by `Below`",
    "live/files/publishing.py": "by `Below`",
    "live/files/runs.py": "the user's directory, runs in it by names made of a time, locks",
    "live/files/spools.py": "a directory of the run that this process has made",
    "live/keylogs.py": "opens the key log that the user names",
    "live/privileges.py": "the directories that the user names",
    "messages/record_columns.py": "no file: buffers in memory are cut",
    "checkpoint/jobs.py": "a temporary directory of its own",
    "checkpoint/spill_transfer.py": "files in that temporary directory, named by number",
    "spark/java.py": "a file of the user's cache, under a name of the package",
    "dataset/runs.py": "the directory that the user names; else by `Below`",
    "dataset/one_pass.py": "the name of a task's function, `rename`",
    "dataset/planning.py": "opens a capture to read it",
    "spark/pipeline.py": "a directory of the run; the tap in its name is quoted",
    "dataset/publishing.py": "directories of the run; the tap in their names is quoted",
    "dataset/live_rotations.py": "the run's directory, by `file_place`",
    "dataset/rewriting.py": "directories of the run, by checked names of files; a temporary one",
    "spark/rollups.py": "by `Below`, and in stores under names of checked files",
    "spark/source_stream.py": "the user's directory of states, named by digests and numbers",
    "dataset/staging.py": "the run's directory, named by number",
    "dataset/storage.py": "objects in stores",
    "dataset/storage_captures.py": "a temporary directory of its own",
    "dataset/runs_table.py": "new files by `Below`, and objects in stores",
    "dataset/storage_tasks.py": "a temporary directory of its own, names in it checked",
    "dataset/tasks.py": "the name of a task's function, `rename`",
    "sql/files.py": "links in a temporary directory of its own",
    "tables/spilled_tables.py": "a temporary directory of its own",
    "tables/spool.py": "new files under names that the caller has made",
    "tables/writers.py": "new files under names that the caller has made",
    "sources/tail.py": "opens the capture that the user names",
    "sources/pipe_source.py": "opens the pipe that the user names",
}

# Files that are read whole or mapped by a path, in packages that read directories of others.
OF_DIRECTORIES = (
    "spark", "dataset", "analysis", "tables", "live/files", "checkpoint", "rules", "sql",
)  # fmt: skip
READS = {"read_bytes", "read_text", "open", "memory_map", "read_table", "ParquetFile"}
READS_WITH_A_REASON = {
    "live/files/publishing.py": "an open file of `Below`, and kdissect's own writer",
    "rules/preconditions.py": "a file of the package",
    "rules/compiled_sql.py": "files of the package",
    "checkpoint/spill_transfer.py": "a temporary directory of this run",
    "dataset/run_records.py": "bytes in memory",
    "spark/pipeline.py": "kdissect's own writer",
    "dataset/planning.py": "a capture",
    "dataset/publishing.py": "kdissect's own writer",
    "dataset/rotation_rows.py": "open files of `Below`",
    "dataset/rewriting.py": "open files of `Below`, and objects in stores",
    "spark/rollups.py": "bytes in memory, and objects in stores",
    "dataset/storage.py": "by `Below`, and uploads of files that a task has made",
    "dataset/storage_captures.py": "a temporary directory of this task",
    "spark/storage_reading.py": "objects in stores",
    "dataset/storage_tasks.py": "objects in stores",
    "dataset/stored_run.py": "open files of `Below`, and objects in stores",
    "dataset/tasks.py": "open files of `Below`",
    "tables/writers.py": "kdissect's own writer",
    "tables/spilled_tables.py": "a temporary directory of the pass",
}

# Functions that take a connection, the name of a table, and a query or statements.
KEEPING = {"keep", "keep_or_separate", "keep_separately"}
WRITING = re.compile(r"[bt]?[wax][bt+]{0,2}|r[bt]?\+[bt]?")
SQL = re.compile(r"\b(SELECT|FROM|WHERE|CREATE\s+(?:TEMP\s+)?(?:VIEW|TABLE)|INSERT|DELETE|UNION)\b")
# Permitted parts of SQL, by module: names of tables and columns declared in the code, SQL made of
# these, paths quoted by `kdissect.sql.files`, and conditions of users that
# `kdissect.sql.conditions` has checked. A text from the wire or from a file is none of these.
IN_SQL = {
    "analysis/engines/chosen_rows.py": {
        "EVERY", "broker", "chosen", "columns", "condition", "joined", "one", "places", "prefix",
        "row", "rows", "same",
    },
    "analysis/engines/duckdb_sources.py": {
        "columns_sql", "files", "of_dataset(name, tap)", "scanned(name, tap)", "selected",
    },
    "analysis/engines/duckdb_tables.py": {
        "ANSWER", "CHOSEN", "EVERY", "PLACE", "chosen", "columns", "condition", "name", "source",
        "source_of(name, places)", "where",
        "sql",  # Ibis compiles it
    },
    "sql/buckets.py": {
        # Queries that Ibis compiled; `table` is a name of its callers.
        "BUCKET", "added", "EVERY", "statements", "table", "whole",
    },
    "sql/separate_statements.py": {
        # A query, and what it consists of, printed by sqlglot; `table` is a name of its callers.
        "f'\"{part.name}\"'", "part.sql", "sql", "statements", "statements.answer", "table",
    },
    "sql/spilled_percentiles.py": {
        # Parts of a query that Ibis compiled, printed by sqlglot, and names of its own. `table` and
        # `sql` are those of its callers.
        "sql", "table",
        "INTERVAL.format(f'base.{x}')", "INTERVAL.format(x)", "at", "base", "by_keys",
        "by_places", "found", "is_sought", "key", "keys", "made", "of_keys", "rank", "same",
        "share", "source.sql('duckdb')", "values", "where or 'TRUE'", "x",
    },
    "sql/row_filter.py": {"ROW_NUMBER", "where"},
    "rules/conditions.py": {
        # Types and columns that rules name; values are parameters.
        "kind", "self.column",
    },
    "rules/evidence_sources.py": {
        # Columns and tables of the package; `wanted` is the text of a condition.
        "by", "column", "self.table", "wanted",
    },
    "rules/executor.py": {
        # `whole` and `shared.answer` are queries of the package, as `whole_query(name)`;
        # `condition` is that of a bucket.
        "_selection(table, columns[table])", "answer.whole(name)", "condition", "every",
        "over.whole(name) if over else whole_query(name)", "select", "shared.answer", "source",
        "table_of(name)",
    },
    "slicing/ranges.py": {
        "BEGINNINGS", "IN_FLIGHT", "IS_TLS", "NAMING_APIS", "START_APIS", "_LIST",
        "around.after_ns", "around.before_ns", "name", "query", "whole",
    },
    "spark/rollup_reading.py": {
        "' AND '.join(conditions)", "', '.join(columns)", "asked.where", "every",
    },
    "dataset/rollup_rows.py": {
        "_BUCKET", "_COUNTED", "_LISTED", "level", "parquet_files([exchanges])",
        "parquet_files(exchanges)", "source", "there",
    },
    "spark/spark_tables.py": {
        "EVERY", "chosen", "condition_of(where, self.prefix, self._askable)", "name", "self.prefix",
    },
}  # fmt: skip


SOUGHT = RUN_CALLS | CHANGES | READS | {"load", "loads", "safe_load", "format"}
KINDS = (ast.Call, ast.Import, ast.ImportFrom, ast.keyword, ast.JoinedStr, ast.BinOp)


@cache
def modules() -> dict[str, list[ast.AST]]:
    """The nodes of each module that a rule looks at."""
    return {
        path.relative_to(PACKAGE).as_posix(): [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, KINDS)
        ]
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def found(look: Callable[[ast.AST], Iterator[str]]) -> Found:
    """Violations by module."""
    every: Found = defaultdict(set)
    for name, nodes in modules().items():
        for node in nodes:
            every[name].update(look(node))
    return {name: what for name, what in every.items() if what}


def called(node: ast.AST) -> tuple[str, str]:
    """Name and module of a call: ``("rmtree", "shutil")``."""
    if not isinstance(node, ast.Call):
        return "", ""
    if isinstance(node.func, ast.Attribute):
        is_sought = node.func.attr in SOUGHT
        return node.func.attr, ast.unparse(node.func.value) if is_sought else "something"
    return node.func.id if isinstance(node.func, ast.Name) else "", ""


def imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(alias.name for alias in node.names)]
    else:
        return
    yield from {name.partition(".")[0] for name in names} & RUNNING


def run_calls(node: ast.AST) -> Iterator[str]:
    name, owner = called(node)
    if name in RUN_CALLS and (name != "compile" or not owner):
        yield name
    if isinstance(node, ast.keyword) and node.arg in RUN_CALLS:
        yield node.arg
    if owner == "yaml":
        yield f"yaml.{name}"


def json_calls(node: ast.AST) -> Iterator[str]:
    name, owner = called(node)
    if owner == "json" and name in ("load", "loads"):
        yield name


def changes(node: ast.AST) -> Iterator[str]:
    name, owner = called(node)
    if not isinstance(node, ast.Call):
        return
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if name == "open":
        modes = [one.value for one in values if isinstance(one, ast.Constant)]
        if any(
            isinstance(mode, str) and re.fullmatch(r"[rwaxbt+]*[wax+][bt+]*", mode)
            for mode in modes
        ):
            yield "open for writing"
        elif owner == "os":
            yield "os.open"
    elif name == "replace":
        # Of a path with one value; of a text there are two, of a tuple or dataclass they are named.
        if (owner and len(node.args) == 1 and not node.keywords) or owner == "os":
            yield name
    elif name == "rename" and not node.args:
        return  # columns of a table
    elif name == "remove" and owner not in ("os", "storage", ""):
        return  # of a list, or of `Below`
    elif name in CHANGES:
        yield name


def reads(node: ast.AST) -> Iterator[str]:
    name, owner = called(node)
    if name in READS and owner not in ("os",):
        yield name


def in_sql(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        parts = [one.value for one in node.values if isinstance(one, ast.FormattedValue)]
        texts = [one.value for one in node.values if isinstance(one, ast.Constant)]
        if parts and SQL.search(" ".join(map(str, texts))):
            yield from map(ast.unparse, parts)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            is_sql = isinstance(one, ast.Constant) and isinstance(one.value, str)
            if is_sql and SQL.search(str(one.value)) and not isinstance(other, ast.Constant):
                yield ast.unparse(other)
    elif called(node)[0] == "format" and SQL.search(called(node)[1]):
        yield ast.unparse(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEEPING:
        yield from map(ast.unparse, node.args[1:])


def test_no_module_can_execute_its_input() -> None:
    assert found(imports) == IMPORTS_WITH_A_REASON
    assert found(run_calls) == CALLS_WITH_A_REASON


def test_json_of_files_has_one_parser() -> None:
    assert {*found(json_calls)} == {*JSON_WITH_A_REASON}


def test_files_are_changed_below_a_directory_or_for_a_reason() -> None:
    assert {*found(changes)} == {*CHANGES_WITH_A_REASON}


def test_directories_of_others_are_read_by_descriptor_or_for_a_reason() -> None:
    of_directories = {name for name in found(reads) if name.startswith(OF_DIRECTORIES)}
    assert of_directories == {*READS_WITH_A_REASON}


def test_sql_contains_only_declared_quoted_or_checked_text() -> None:
    assert found(in_sql) == IN_SQL


@pytest.mark.parametrize(
    ("look", "code", "what"),
    [
        (imports, "import pickle", "pickle"),
        (imports, "from pickle import loads", "pickle"),
        (imports, "import yaml.loader", "yaml"),
        (run_calls, "eval(text)", "eval"),
        (run_calls, "numpy.load(file, allow_pickle=True)", "allow_pickle"),
        (run_calls, "yaml.load(text)", "yaml.load"),
        (run_calls, "pandas.read_pickle(path)", "read_pickle"),
        (json_calls, "json.load(file)", "load"),
        (changes, "path.unlink(missing_ok=True)", "unlink"),
        (changes, "shutil.rmtree(path)", "rmtree"),
        (changes, "os.replace(a, b)", "replace"),
        (changes, "source.replace(to)", "replace"),
        (changes, "path.open('wb')", "open for writing"),
        (changes, "open(path, mode='a+')", "open for writing"),
        (changes, "os.open(path, flags)", "os.open"),
        (changes, "pa.OSFile(path, 'wb')", "OSFile"),
        (reads, "(run / 'commit.json').read_text()", "read_text"),
        (reads, "parquet.ParquetFile(path)", "ParquetFile"),
        (in_sql, "f'SELECT * FROM t WHERE topic = {topic}'", "topic"),
        (in_sql, "'SELECT 1 FROM ' + table", "table"),
        (in_sql, "'SELECT %s FROM t' % name", "name"),
        (in_sql, "'SELECT {} FROM t'.format(name)", "'SELECT {} FROM t'.format(name)"),
    ],
)
def test_each_rule_finds_its_target(
    look: Callable[[ast.AST], Iterator[str]], code: str, what: str
) -> None:
    assert what in {one for node in ast.walk(ast.parse(code)) for one in look(node)}


@pytest.mark.parametrize(
    ("look", "code"),
    [
        (run_calls, "re.compile('a')"),
        (changes, "text.replace('a', 'b')"),
        (changes, "datetime.replace(hour=1)"),
        (changes, "path.open('rb')"),
        (changes, "names.remove(name)"),
        (in_sql, "f'{count} rows from the capture'"),
    ],
)
def test_no_rule_flags_harmless_code(look: Callable[[ast.AST], Iterator[str]], code: str) -> None:
    assert not {one for node in ast.walk(ast.parse(code)) for one in look(node)}
