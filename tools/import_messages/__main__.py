"""``python -m tools.import_messages DIRECTORY...``: Kafka's JSON definitions into the schema.

Run it on the message directory of a newer Kafka release and review the diff: what the directory
has replaces what the schema says of the same versions, what it no longer has stays.
"""

import argparse
import sys
from pathlib import Path

from kdissect.errors import SchemaError
from kdissect.protocol.notation import SCHEMA_DIRECTORY
from tools.import_messages.definitions import read_directory
from tools.import_messages.files import Schema


def main(arguments: list[str] | None = None) -> int:
    """Merge the directories into the schema; prints the files that changed."""
    parser = argparse.ArgumentParser(prog="python -m tools.import_messages", description=__doc__)
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIRECTORY")
    parser.add_argument("--into", type=Path, default=SCHEMA_DIRECTORY, help="schema directory")
    parser.add_argument("--category", default="", help="file for messages not known before")
    parser.add_argument("--release", default="", help="release that first spoke new versions")
    options = parser.parse_args(arguments)
    try:
        schema = Schema.load(options.into)
        for directory in options.directories:
            for source in read_directory(directory):
                for warning in schema.merge(source, options.category, options.release):
                    print(warning, file=sys.stderr)
        for path in schema.write(options.into):
            print(path)
    except SchemaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


sys.exit(main()) if __name__ == "__main__" else None
