"""A snapshot restricted after it was made: as far as its rows say what they are of.

Lists that are not broken down by the focus are empty: a recorded session has the clients of all
APIs, not those of each.
"""

from kdissect.live.counting.snapshot import Focus, Snapshot, Timed

NOTHING = Timed("", 0.0, 0.0, 0.0, 0.0, -1, -1, -1, -1)


def narrowed(snapshot: Snapshot, focus: Focus) -> Snapshot:
    """The snapshot of `focus`; that of everything stays as it is."""
    if focus == snapshot.focus:
        return snapshot
    named = {
        "apis": focus.api, "clients": focus.client, "topics": focus.topic,
    }  # fmt: skip
    chosen = [name for name, value in named.items() if value]
    lists: dict[str, tuple[Timed, ...]] = {}
    for name in named:
        rows: tuple[Timed, ...] = getattr(snapshot, name)
        is_alone = chosen == [name]
        lists[name] = tuple(row for row in rows if is_alone and row.name == named[name])
    whole = next((row for rows in lists.values() for row in rows), NOTHING)
    errors = tuple(
        one
        for one in snapshot.errors
        if focus.api in ("", one.api)
        and focus.client in ("", one.client)
        and focus.topic in ("", one.topic)
    )
    slowest = tuple(
        one
        for one in snapshot.slowest
        if focus.api in ("", one.api)
        and focus.client in ("", one.client)
        and focus.topic in ("", one.topic)
    )
    is_client = bool(focus.client) and not focus.api and not focus.topic
    return snapshot._replace(
        focus=focus,
        whole=whole._replace(name=""),
        errors=errors,
        slowest=slowest,
        connections=tuple(
            one for one in snapshot.connections if is_client and one.client == focus.client
        ),
        connection_rates=tuple(
            one for one in snapshot.connection_rates if is_client and one.client == focus.client
        ),
        groups=(),
        partitions=tuple(
            one for one in snapshot.partitions if chosen == ["topics"] and one.topic == focus.topic
        ),
        clients_seen=len(lists["clients"]),
        topics_seen=len(lists["topics"]),
        connections_seen=0,
        apis=lists["apis"],
        clients=lists["clients"],
        topics=lists["topics"],
    )
