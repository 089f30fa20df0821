"""The layouts of kdissect's schema by the names that upstream gave the messages at any time."""

from kdissect.protocol.notation import SCHEMA_DIRECTORY, load_file
from kdissect.protocol.specs import MessageSpec, message_name


def specs_by_name() -> dict[str, list[MessageSpec]]:
    """The spec of each message and its variants, by its names of all times."""
    specs: dict[str, list[MessageSpec]] = {}
    for path in sorted(SCHEMA_DIRECTORY.glob("*/*.txt")):
        file = path.relative_to(SCHEMA_DIRECTORY).with_suffix("").as_posix()
        for definition in load_file(file).values():
            for role, spec in definition.layouts.items():
                variants = [
                    variant for its_role, variant in definition.variants if its_role == role
                ]
                for name in (definition.name, *definition.former_names):
                    specs[message_name(name, role)] = [spec, *variants]
    return specs
