"""Specs and a version → trees of readers: the full decode and projected decodes.

A projection is built from two callbacks: the role of a field (`RoleOf`), and the kind of a struct
that has these roles (`KindOf`). Each field with a role gets a slot. A struct whose kind is
not 0 yields a row at its end; its shape finds the roles in its own fields, then in single structs
inside it that yield no row themselves, then, for inherited roles, in the part of the enclosing
structs before it on the wire. An array of primitives with a role yields a row for each element.
"""

from collections.abc import Callable

from librt.vecs import vec
from mypy_extensions import i64

from kdissect.errors import DecodeError, no_layout
from kdissect.protocol.apis import APIS, api_name, find_api
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.primitives import check_offset
from kdissect.protocol.projector import KindOf, Projector, Role, RoleOf, Scope
from kdissect.protocol.readers import FAILED, NULL, Reader, Shape, Sink
from kdissect.protocol.specs import MessageSpec

__all__ = [
    "KindOf", "Plan", "Plans", "Role", "RoleOf", "build_projection", "build_reader",
]  # fmt: skip


class GeneratedRead:
    """The projected decode of one layout as one method, see `messages.generated_code`.

    `shapes` are those of its plan.
    """

    def __init__(self, shapes: list[Shape]) -> None:
        self.shapes = shapes

    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:
        """Offset after the body at `at`; FAILED, or DecodeError, if it is left to the tree.

        The receiver must discard the values that it got before.
        """
        return FAILED


# Makes the generated read of a plan when it is first used; None without one.
GeneratedOf = Callable[["Plan"], GeneratedRead | None]


class Plan:
    """The projected decode of one layout; `shapes` are those of all its rows.

    `spec` and `version` identify the layout. A sink may be used with any number of plans in turn.
    """

    def __init__(
        self,
        spec: MessageSpec,
        version: int,
        reader: Reader,
        shapes: list[Shape],
        slot_count: i64,
        generated_of: GeneratedOf | None,
    ) -> None:
        self.spec = spec
        self.version = version
        self.reader = reader
        self.shapes = shapes
        self.slot_count = slot_count
        self.generated_of = generated_of
        self.generated: GeneratedRead | None = None

    def run(self, data: bytes, offset: i64, sink: Sink) -> i64:
        """Decode the body at `offset` into `sink`; the offset after it. Raises DecodeError."""
        if len(sink.slots) < self.slot_count:
            sink.slots = vec[i64]([NULL] * self.slot_count)
        check_offset(data, offset, 0, "body")
        if sink.takes_fast_paths:
            generated = self.generated if self.generated_of is None else self.generated_read()
            if generated is not None:
                end = read_generated(generated, data, offset, sink)
                if end != FAILED:
                    return end
                sink.begin()
        return self.reader.project(data, offset, sink)

    def generated_read(self) -> GeneratedRead | None:
        """The same decode as one method, made on first use; None if not supported."""
        if self.generated_of is not None:
            self.generated = self.generated_of(self)
            self.generated_of = None
        return self.generated


def read_generated(reader: GeneratedRead, data: bytes, offset: i64, sink: Sink) -> i64:
    """Call its `read`, returning FAILED instead of raising."""
    try:
        return reader.read(data, offset, sink)
    except DecodeError:
        return FAILED


def build_projection(
    spec: MessageSpec,
    version: int,
    role_of: RoleOf,
    kind_of: KindOf,
    role_count: int,
    inherited: frozenset[int] | None = None,
    generated_of: GeneratedOf | None = None,
) -> Plan:
    """The projected decode of one version; None in `inherited` means all roles.

    `role_of` is called for each field with the path of upstream names that leads to its struct,
    `kind_of` for each struct with the roles it has and whether it is the whole body.
    """
    if version not in spec.versions:
        raise no_layout(spec.name, version)
    projector = Projector(spec, version, role_of, kind_of, role_count, inherited)
    reader = projector.struct(spec.fields, (), "", Scope(None))
    return Plan(spec, version, reader, projector.shapes, projector.slot_count, generated_of)


class Plans:
    """Plans of all API messages for one pair of callbacks, each built on first use."""

    def __init__(
        self,
        request_roles: RoleOf,
        response_roles: RoleOf,
        kind_of: KindOf,
        role_count: int,
        inherited: frozenset[int] | None = None,
        generated_of: GeneratedOf | None = None,
    ) -> None:
        self.request_roles = request_roles
        self.response_roles = response_roles
        self.kind_of = kind_of
        self.role_count = role_count
        self.inherited = inherited
        self.generated_of = generated_of
        # By API key times two, plus one for responses, then by version; None if not built.
        self.plans: list[list[Plan | None]] = [[None] * count for count in _counts()]
        self.variants_known: dict[int, list[Plan]] = {}

    def get(self, key: i64, version: i64, is_response: bool) -> Plan:
        """Plan of one message; raises UnknownApi for unknown keys and versions."""
        side: i64 = key * 2 + (1 if is_response else 0)
        if 0 <= side < len(self.plans):
            of_side = self.plans[side]
            if 0 <= version < len(of_side):
                plan = of_side[version]
                if plan is not None:
                    return plan
        return self._build(key, version, is_response)

    def variants(self, key: i64, version: i64, is_response: bool) -> list[Plan]:
        """Plans of other layouts that releases had under this version; usually none.

        ``plan.spec.releases`` are those releases. Raises UnknownApi as `get` does.
        """
        number = key << 17 | version << 1 | (1 if is_response else 0)
        known = self.variants_known.get(number)
        if known is None:
            known = self._build_variants(key, version, is_response)
            self.variants_known[number] = known
        return known

    def _build_variants(self, key: int, version: int, is_response: bool) -> list[Plan]:
        side = "response" if is_response else "request"
        return [
            self._projection(spec, version, is_response)
            for role, spec in find_api(key).definition().variants
            if role == side and version in spec.versions
        ]

    def _projection(self, spec: MessageSpec, version: int, is_response: bool) -> Plan:
        role_of = self.response_roles if is_response else self.request_roles
        return build_projection(
            spec,
            version,
            role_of,
            self.kind_of,
            self.role_count,
            self.inherited,
            self.generated_of,
        )

    def _build(self, key: int, version: int, is_response: bool) -> Plan:
        api = APIS.get(key)
        if api is None or not api.knows(version):
            raise no_layout(api_name(key), version)
        spec = api.definition().layouts["response" if is_response else "request"]
        plan = self._projection(spec, version, is_response)
        self.plans[key * 2 + (1 if is_response else 0)][version] = plan
        return plan


def _counts() -> list[int]:
    """Number of versions of each side of an API, for all keys in order."""
    return [APIS[key].highest + 1 for key in sorted(APIS) for _ in range(2)]
