"""Bodies that are read by a generated reader: a method written out for their layout, without
traversing a tree.

`generated_produce_fetch` and `generated_metadata_groups` are written by
tools/write_generated_readers.py from the same layouts and roles as the tree, and committed. Each
method reads one body into a `FieldSink`: a bounds check for each run of fixed fields, values in
local variables, fields written where their struct ends. Irregular input is left to the tree, as
`protocol.generated` does without compilation.
"""

from kdissect.messages import generated_metadata_groups, generated_produce_fetch
from kdissect.protocol.plans import GeneratedRead

READS: dict[tuple[int, int, int], type[GeneratedRead]] = {
    **generated_produce_fetch.READS,
    **generated_metadata_groups.READS,
}
