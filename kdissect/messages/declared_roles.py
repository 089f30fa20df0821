"""Roles of the declared fields, of requests and of partitions, beside those that code names."""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from kdissect.messages import partitions, request_fields, roles

REQUEST_ROLES: Final = {
    field.name: roles.NAMED_COUNT + index if field.role < 0 else field.role
    for index, field in enumerate(request_fields.FIELDS)
}
PARTITION_ROLES: Final = {
    field.name: roles.NAMED_COUNT + len(request_fields.FIELDS) + index
    if field.role < 0
    else field.role
    for index, field in enumerate(partitions.FIELDS)
    if not field.is_counted
}
ROLE_COUNT: Final = roles.NAMED_COUNT + len(request_fields.FIELDS) + len(partitions.FIELDS)


@mypyc_attr(acyclic=True)
class RequestSlot:
    """Name, role and type by which `FieldSink` takes a field from a slot."""

    __slots__ = ("name", "role", "is_text")

    def __init__(self, name: str, role: i64, is_text: bool) -> None:
        self.name = name
        self.role = role
        self.is_text = is_text


REQUEST_SLOTS: Final = [
    RequestSlot(field.name, REQUEST_ROLES[field.name], field.is_text)
    for field in request_fields.FIELDS
]


def role_places() -> vec[i64]:
    """The role of each cell of a partition; -1 for one without."""
    places = vec[i64]([-1])
    for field in partitions.FIELDS:
        places = append(places, PARTITION_ROLES.get(field.name, -1))
    return places
