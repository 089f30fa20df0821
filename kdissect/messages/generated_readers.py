"""Which bodies are read straight: by a method written out for their layout, with no tree to walk.

`straight_produce_fetch` and `straight_metadata_groups` are written by tools/write_straight_reads.py
from the same layouts and roles as the tree, and committed. Each method reads one body into a
`FactSink`: a bounds check for each run of fixed fields, values in local variables, facts written
where the struct that says them ends. What is not as it should be it leaves to the tree, as
`protocol.generated` does where nothing is compiled.
"""

from kdissect.messages import generated_metadata_groups, generated_produce_fetch
from kdissect.protocol.plans import StraightRead

READS: dict[tuple[int, int, int], type[StraightRead]] = {
    **generated_produce_fetch.READS,
    **generated_metadata_groups.READS,
}
