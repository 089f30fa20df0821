"""Topic names by id, kept in the output directory for the next start.

Newer clients refer to topics by id and request names only every few minutes: until then a new
capture would not know them.
"""

import json
from pathlib import Path
from typing import Final

from kdissect.errors import DatasetError
from kdissect.live.files.runs import locked
from kdissect.live.files.spools import FILE_MODES
from kdissect.live.topic_ids import id_of
from kdissect.protocol.primitives import uuid_text
from kdissect.system.confined import Below
from kdissect.system.strict_json import mapping, parsed, text
from kdissect.tables.rotations import TOPICS
from kdissect.tables.spool import write_whole

# The newest are kept: a file of 10 MB. Clusters have up to some ten thousand topics.
KEPT_NAMES: Final = 100_000
# A name has 249 bytes at most, its id 22: 28 MB for the maximum number.
TOPICS_BYTES: Final = 64 << 20


class TopicNames:
    """The file of names; `damage` is "" or describes the damage of the existing file."""

    def __init__(self, directory: Path, is_secret: bool) -> None:
        self.path = directory / TOPICS
        self.mode = FILE_MODES[is_secret]
        self.known = 0  # number of names at the last write
        self.damage = ""

    def read(self) -> dict[bytes, str]:
        """Names kept so far; none if the file is damaged."""
        try:
            with Below(self.path.parent) as below:
                kept = parsed(below.read(self.path.name, TOPICS_BYTES), self.path.name)
            names = mapping(kept, self.path.name)
            return {id_of(one): text(name, one) for one, name in names.items()}
        except FileNotFoundError:
            pass
        except (ValueError, DatasetError) as error:
            self.damage = f"{self.path} is damaged ({error}): names of topics are learnt anew"
        except OSError as error:
            self.damage = f"{self.path} cannot be read ({error.strerror}): it is written anew"
        return {}

    def keep(self, names: dict[bytes, str]) -> None:
        """Write the names, if they have changed; raises OSError."""
        if len(names) == self.known:
            return
        known = dict(names)
        # Another capture may write to the same directory.
        with locked(self.path.parent):
            merged = list({**self.read(), **known}.items())[-KEPT_NAMES:]
            texts = {uuid_text(raw): name for raw, name in merged}
            content = json.dumps(texts, indent=0).encode()
            write_whole(self.path, content, is_synced=True, mode=self.mode)
        self.known = len(known)
