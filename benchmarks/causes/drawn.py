"""Drawn captures: of each class, quiet ones, too, a recording under drawn conditions.

Kafka's version, the client's library and the part of the capture are those of some variants of the
class, in combinations that the seed decides; parts begin and end elsewhere, producers are quicker
or slower, and everything takes longer. Scenarios of the recorder have one form each, and are left
out.
"""

import random
import re
from collections.abc import Iterator

from benchmarks.causes.plan import INCIDENTS, QUIETS
from benchmarks.causes.stage import Planned
from benchmarks.causes.table import DRAWN, QUIET, RECORDER, Incident, Quiet, Variant, View

SHIFT = 0.08  # of the beginning and the end of a part, of the whole capture
PACES = (0.6, 1.6)
LENGTHS = (0.95, 1.5)


def drawn(seed: int) -> Iterator[Planned]:
    """Recordings staged with this seed."""
    for half, every in ((DRAWN, INCIDENTS), (QUIET, QUIETS)):
        for what in every:
            if any(variant.shape != RECORDER for variant in what.variants):
                chance = random.Random(f"{seed} {what.name}")
                yield f"{what.name}-{seed}", half, what, drawn_variant(what, chance)


def drawn_variant(what: Incident | Quiet, chance: random.Random) -> Variant:
    """One of the variants, in another version, with another library, at another pace, seen from
    elsewhere.
    """
    staged = [variant for variant in what.variants if variant.shape != RECORDER]
    base = chance.choice(staged)
    views = tuple(dict.fromkeys(view for variant in staged for view in variant.views))
    chosen = tuple(shifted(view, chance) for view in views if chance.random() < 0.5)
    base = base._replace(
        pace=round(chance.uniform(*PACES), 2), length=round(chance.uniform(*LENGTHS), 2)
    )
    if base.options:  # which are for this version and library
        return base._replace(views=chosen)
    alike = [one for one in staged if one.shape == base.shape and not one.options]
    return base._replace(
        version=chance.choice(alike).version, library=chance.choice(alike).library, views=chosen
    )


def shifted(view: View, chance: random.Random) -> View:
    """A part that begins and ends elsewhere; other views as they are."""
    found = re.fullmatch(r"part:([\d.]+)-([\d.]+)", view.kind)
    if found is None:
        return view
    edges = [float(each) for each in found.groups()]
    # The edge of a whole capture stays: the events there decide whether the cause is visible.
    moved = [
        each if each in (0, 1) else round(each + chance.uniform(-SHIFT, SHIFT), 2) for each in edges
    ]
    return view._replace(kind="part:{:g}-{:g}".format(*moved))
