"""Projected decodes as straight code: a class for each layout, with one method (`layout_writer`).

Interpreted, the tree of readers spends most of its time on calls: the class of a layout is made
when it is first used. Compiled, the layouts that traffic is made of have classes in
`generated_readers`, a module that is written when kdissect is built (`readers_source`); the source
tree and the plain wheel are without it. Everything else is read by the tree.
"""

from types import FunctionType
from typing import Any, Final, cast

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from kdissect.messages.layout_writer import method_of
from kdissect.protocol.plans import GeneratedRead, Plan
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.readers import FAILED, NULL, Reader
from kdissect.protocol.structures import read_tag, skip_tags

# The name and version of a layout: one of several under a version is always read by the tree.
CompiledReads = dict[tuple[str, int], type[GeneratedRead]]

_NAMES: Final = {
    "FAILED": FAILED, "NULL": NULL, "read_i16_be": read_i16_be, "read_i32_be": read_i32_be,
    "read_i64_be": read_i64_be, "read_unsigned_varint": read_unsigned_varint,
    "read_tag": read_tag, "skip_tags": skip_tags,
}  # fmt: skip


def is_interpreted() -> bool:
    """Return whether kdissect's modules are not compiled here."""
    return isinstance(Reader.skip, FunctionType)


def compiled_reads() -> CompiledReads:
    """The readers of the compiled module; none where nothing is compiled."""
    if is_interpreted():
        return {}
    from kdissect.messages.generated_readers import READS

    return cast(CompiledReads, READS)


_READS: Final = compiled_reads()


def generated_read(plan: Plan) -> GeneratedRead | None:
    """The straight code of a plan in this build, or None."""
    return compiled_read(_READS, plan) if _READS else interpreted_read(plan)


def compiled_read(reads: CompiledReads, plan: Plan) -> GeneratedRead | None:
    """The reader of a plan among those that were compiled."""
    made = None if plan.spec.releases else reads.get((plan.spec.name, int(plan.version)))
    return None if made is None else made(plan.shapes)


def interpreted_read(plan: Plan, *, has_fast_paths: bool = True) -> GeneratedRead:
    """The reader of a plan as a class made here; without fast paths it is for any sink."""
    lines = method_of(plan, is_compiled=False, has_fast_paths=has_fast_paths)
    names: dict[str, Any] = {**_NAMES, "GeneratedRead": GeneratedRead}
    source = "\n".join(["class Read(GeneratedRead):", *lines])
    exec(compile(source, "<layout>", "exec"), names)  # noqa: S102  # our own layouts
    return cast(GeneratedRead, names["Read"](plan.shapes))
