"""Resources of the errors in a CreateAcls response, whose results have only their position."""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode_frame
from kdissect.messages.extracted import ACL_RESOURCES, ErrorFact
from kdissect.messages.value_budget import spending

CREATE_ACLS: Final = 30


def name_resources(
    version: int, request: bytes, response: bytes, errors: Sequence[ErrorFact], limit: int
) -> None:
    """Fill in the resource of each error: that of the creation in the same position as its result.

    Resources beyond `limit` bytes are left out.
    """
    try:
        with spending(limit // 2):
            asked = decode_frame(CREATE_ACLS, version, request, False)
        with spending(limit // 2):
            answered = decode_frame(CREATE_ACLS, version, response, True)
    except DecodeError:
        return
    pairs = zip(asked["creations"], answered["results"], strict=False)
    failed = [creation for creation, result in pairs if result["error_code"] != 0]
    for creation, error in zip(failed, errors, strict=False):
        error.resource = resource_of(creation)


def resource_of(creation: dict[str, Any]) -> str:
    """Like ``topic orders``."""
    kind = creation["resource_type"]
    name = creation["resource_name"]
    return f"{ACL_RESOURCES.get(kind, f'resource type {kind}')} {name}"
