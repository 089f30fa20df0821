"""Which bodies are read by a generated reader: a method written out for their layout, with no tree
to walk.

`generated_produce_fetch` and `generated_metadata_groups` are written by
tools/write_generated_readers.py from the same layouts and roles as the tree, and committed. Each
method reads one body into a `FieldSink`: a bounds check for each run of fixed fields, values in
local variables, facts written where the struct that says them ends. What is not as it should be it
leaves to the tree, as `protocol.generated` does where nothing is compiled.
"""

from kdissect.messages import generated_metadata_groups, generated_produce_fetch
from kdissect.protocol.plans import GeneratedRead

READS: dict[tuple[int, int, int], type[GeneratedRead]] = {
    **generated_produce_fetch.READS,
    **generated_metadata_groups.READS,
}
