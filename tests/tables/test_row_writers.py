"""Writers of rows are made of the columns that are declared."""

import re
from importlib.util import find_spec

import pytest

from kdissect.messages.generated_code import is_interpreted
from kdissect.tables.row_writers import writer_classes
from kdissect.tables.schemas import TABLES
from kdissect.tables.writers_source import WRITERS, expression, module_source


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_writer_of_its_columns_in_their_order(name: str) -> None:
    source = module_source().split(f"class {name.capitalize()}Columns(")[1].partition("\nclass ")[0]
    written = re.findall(r"^        write_i64_le\(b, (.*)\)$", source, re.M)
    declared = [column for column in TABLES[name].stored if column.source]
    assert written == [expression(column) for column in declared]
    assert name in writer_classes()
    assert name in WRITERS


def test_only_columns_that_are_copied_in_bulk_have_no_source() -> None:
    without = {
        name: {column.name for column in table.stored if not column.source}
        for name, table in TABLES.items()
    }
    assert {name for name, columns in without.items() if columns} == {"partitions", "records"}
    assert without["records"] == {"offset", "time", "key_size", "value_size", "header_count"}
    assert not any(column.source for table in TABLES.values() for column in table.columns
                   if not column.stored)  # fmt: skip


def test_the_generated_module_is_only_in_a_compiled_build() -> None:
    assert (find_spec("kdissect.tables.generated_writers") is None) is is_interpreted()
