# ruff: noqa: S608  # it tests injection
"""Malicious conditions drawn from a grammar, with their forbidden targets."""

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

CANARY: Final = "canary-7f3a91c2-must-not-be-seen"
VARIABLE: Final = "KDISSECT_CANARY"


class Prey(NamedTuple):
    """Targets on the machine: a file in some formats, and a listening port."""

    directory: Path
    text: Path
    csv: Path
    json: Path
    parquet: Path
    listener: socket.socket

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def state(self) -> dict[str, bytes]:
        """Every file below the directory and its content."""
        paths = sorted(path for path in self.directory.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in paths}

    def was_called(self) -> bool:
        """Return whether a connection to the port was tried."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@contextmanager
def made_prey(directory: Path) -> Iterator[Prey]:
    """The files, and a socket on loopback that accepts on request."""
    directory.mkdir(parents=True, exist_ok=True)
    prey = Prey(
        directory,
        *(directory / f"prey.{end}" for end in ("txt", "csv", "json", "parquet")),
        socket.create_server(("127.0.0.1", 0)),
    )
    prey.listener.setblocking(False)
    prey.text.write_text(CANARY)
    prey.csv.write_text(f"content\n{CANARY}\n")
    prey.json.write_text(f'{{"content": "{CANARY}"}}\n')
    parquet.write_table(pa.table({"content": [CANARY]}), prey.parquet)
    with prey.listener:
        yield prey


def tables(prey: Prey) -> list[str]:
    """Expressions after FROM that would reveal data of the machine."""
    url = f"http://127.0.0.1:{prey.port}/prey.csv"
    return [
        f"read_text('{prey.text}')",
        f"read_blob('{prey.text}')",
        f"read_csv('{prey.csv}')",
        f"read_csv_auto('{prey.csv}')",
        f"read_json('{prey.json}')",
        f"read_json_auto('{prey.json}')",
        f"read_ndjson_objects('{prey.json}')",
        f"read_parquet('{prey.parquet}')",
        f"parquet_scan('{prey.parquet}')",
        f"parquet_metadata('{prey.parquet}')",
        f"sniff_csv('{prey.csv}')",
        f"glob('{prey.directory}/*')",
        f"'{prey.csv}'",
        f"'{prey.parquet}'",
        f'"{prey.json}"',
        f"'{url}'",
        f"read_text('{url}')",
        f"read_csv('{url}')",
        f"query('FROM read_text(''{prey.text}'')')",
        f"query_table('{prey.csv}')",
        "duckdb_settings()",
        "duckdb_functions()",
        "duckdb_secrets()",
        "duckdb_extensions()",
        "information_schema.tables",
        "pragma_database_list",
        "pragma_version()",
        "(SHOW TABLES)",
        "prey_frame",
        "range(10)",
        "json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    ]


def scalars(prey: Prey) -> list[str]:
    """Expressions that reveal data of the machine, or act on it."""
    whole = [f"(SELECT max(x::VARCHAR) FROM {table} t(x))" for table in tables(prey)]
    return [
        *whole,
        f"(FROM {tables(prey)[0]} SELECT content LIMIT 1)",
        f"(WITH p AS (SELECT content FROM read_text('{prey.text}')) SELECT * FROM p)",
        f"(WITH RECURSIVE p AS (SELECT 1 UNION SELECT * FROM read_text('{prey.text}')) FROM p)",
        f"(SELECT '' UNION ALL SELECT content FROM read_text('{prey.text}'))",
        f"(SELECT content FROM (SELECT 1) JOIN read_text('{prey.text}') ON true)",
        f"getenv('{VARIABLE}')",
        "current_setting('temp_directory')",
        "getvariable('x')",
        "current_query()",
        "current_schemas(true)[1]",
        "error('x')::VARCHAR",
        "nextval('s')::VARCHAR",
        "sleep_ms(1)::VARCHAR",
        "write_log('x')::VARCHAR",
        "which_secret('s3://a/b', 's3')::VARCHAR",
        "txid_current()::VARCHAR",
        "json_serialize_plan('SELECT 1')::VARCHAR",
        "reflect('java.lang.System', 'getProperty', 'user.home')",
        "java_method('java.lang.System', 'getenv', 'PATH')",
        "input_file_name()",
    ]


def statements(prey: Prey) -> list[str]:
    """Statements that change data, or load some."""
    out = prey.directory / "made"
    return [
        f"COPY (SELECT 1) TO '{out}.csv'",
        f"COPY exchanges TO '{out}.parquet' (FORMAT parquet)",
        f"ATTACH '{out}.db'",
        f"EXPORT DATABASE '{out}'",
        f"IMPORT DATABASE '{prey.directory}'",
        f"CREATE TABLE t AS FROM read_text('{prey.text}')",
        "CREATE CANARY (TYPE s3, KEY_ID 'x')",
        "CREATE MACRO lower(x) AS error(x)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "DROP VIEW exchanges",
        "SELECT 1",
    ]


HOLDERS: Final = (
    "api = {0}", "{0} <> ''", "api IN ({0})", "api IN (SELECT {0})", "api LIKE {0}",
    "EXISTS (SELECT 1 WHERE {0} <> '')", "CASE WHEN {0} <> '' THEN true END",
    "coalesce({0}, '') <> ''", "CAST({0} AS VARCHAR) > 'a'", "api BETWEEN {0} AND 'z'",
    "list_transform(['a'], x -> x || {0}) <> []", "[y FOR y IN [{0}]] <> []",
    "{{'a': {0}}}.a <> ''", "NOT (api = 'a' AND {0} = 'b')", "api ORDER BY {0}",
    "api IN (SELECT api FROM all_exchanges WHERE {0} = 'a')",
    "api IN (SELECT api FROM all_exchanges ORDER BY {0})",
    "api = ANY (SELECT max({0}) FILTER (WHERE {0} <> '') FROM all_exchanges)",
    "count(*) OVER (PARTITION BY {0}) > 0", "api COLLATE nocase = {0}",
)  # fmt: skip
BREAKS: Final = (
    "true; {0}", "true); {0}; --", "1 = 1;\n{0}", "true; {0}; SELECT true", "{0}",
    "true) ; {0} ; SELECT (true", "/* */ true; /* -- */ {0}", "'a;b' = 'c'; {0}",
    "true) UNION ALL SELECT * FROM ({0}) --", "true\n) t; {0} --", "$$a$$ = 'b'; {0}",
)  # fmt: skip


def drawn(chance: random.Random, prey: Prey) -> str:
    """An attack: an expression within others, or a statement behind one, disguised."""
    if chance.random() < 0.3:
        text = chance.choice(BREAKS).format(chance.choice(statements(prey)))
        return disguised(chance, text)
    text = chance.choice(scalars(prey))
    for _ in range(chance.choice((1, 1, 2))):
        text = chance.choice(HOLDERS).format(text if text[0] == "(" else f"({text})")
    if chance.random() < 0.3:
        text = chance.choice(("true OR {0}", "({0}) IS NULL", "true) OR ({0}", "{0} -- ;")).format(
            text
        )
    return disguised(chance, text)


def disguised(chance: random.Random, text: str) -> str:
    """The same with other spaces, comments and cases outside of quotes."""
    parts: list[str] = []
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == " " and chance.random() < 0.2:
            character = chance.choice(("\n", "\t", "  ", " /* ; ' */ ", " --;\n"))
        elif character.isalpha() and chance.random() < 0.2:
            character = character.swapcase()
        parts.append(character)
    return "".join(parts)


def harmless(chance: random.Random, prey: Prey) -> str:
    """A condition whose constants only look like an attack."""
    attack = drawn(chance, prey).replace("'", "''")
    holder: Sequence[str] = ("api = '{0}'", "api IN ('a', '{0}')", "coalesce(api, '{0}') <> ''")
    return chance.choice(holder).format(attack)
