"""Fields of requests are declared once."""

from kdissect.messages import roles
from kdissect.messages.columns import TEXT
from kdissect.messages.declared_roles import (
    PARTITION_ROLES,
    REQUEST_ROLES,
    REQUEST_SLOTS,
    ROLE_COUNT,
)
from kdissect.messages.request_fields import (
    FIELDS,
    NOTHING_ASKED,
    RequestFields,
)
from kdissect.protocol.readers import NULL
from kdissect.tables.schemas import EXCHANGES
from tests.protocol.projected import values_of


def test_each_attribute_is_a_field_and_absent_at_first() -> None:
    absent = {field.name: "" if field.column.type == TEXT else NULL for field in FIELDS}
    assert values_of(RequestFields()) == absent == values_of(NOTHING_ASKED)


def test_each_field_is_absent_again_when_it_was_cleared() -> None:
    fields = RequestFields()
    for field in FIELDS:
        setattr(fields, field.name, "x" if field.is_text else 1)
    fields.clear()
    assert values_of(fields) == values_of(RequestFields())


def test_each_field_has_a_role_of_its_own() -> None:
    named = {value for name, value in vars(roles).items() if name.isupper()}
    assert len({*REQUEST_ROLES.values(), *PARTITION_ROLES.values()}) == len(FIELDS) + len(
        PARTITION_ROLES
    )
    assert max(*REQUEST_ROLES.values(), *PARTITION_ROLES.values()) < ROLE_COUNT
    for field in FIELDS:
        role = REQUEST_ROLES[field.name]
        assert role in named if field.role >= 0 else roles.NAMED_COUNT <= role < ROLE_COUNT
    assert [(slot.name, slot.role) for slot in REQUEST_SLOTS] == list(REQUEST_ROLES.items())


def test_the_columns_are_in_the_order_of_the_fields() -> None:
    declared = [field.name for field in FIELDS if field.column.meaning]
    assert [name for name in (c.name for c in EXCHANGES.columns) if name in declared] == declared
