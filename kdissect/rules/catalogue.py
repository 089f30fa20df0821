"""The ids of findings: condition, advice, and the command for more.

print_docs generates the table of docs/summary.md from it.
"""

from typing import Final, NamedTuple

ERROR: Final = "error-"  # prefix of ids of single error codes; the code's name follows


class Kind(NamedTuple):
    """One id: `says` is its condition, `next` the advice; `command` shows more."""

    says: str
    next: str
    command: str


# In order of impact: of two findings of one severity the first here comes first.
KINDS: Final = {
    "capture-loses-packets": Kind(
        "0.1 % or more of the payload that was on the wire is not in the capture; a problem from "
        "1 % on",
        "Capture again with a larger buffer (tcpdump -B) or a filter; take counts as too low.",
        "health",
    ),
    "connections-encrypted": Kind(
        "connections of TLS cannot be read, and are all of the traffic or a tenth of it",
        "Give the secrets of the sessions with --keylog.",
        "table connections",
    ),
    "failover-blackout": Kind(
        "partitions that had been served could not be written or read until another broker, or "
        "the same one again, served them; a problem from 1 s on",
        "See why the old broker lost them, and which client took longest to find the new one.",
        "failovers",
    ),
    "replicas-missing": Kind(
        "NOT_ENOUGH_REPLICAS: fewer replicas in sync than min.insync.replicas",
        "Bring the missing brokers back; acks=all cannot write until then.",
        "failovers",
    ),
    "produce-latency-slow-follower": Kind(
        "acks=all: where one follower was the last to replicate, p99 is 50 ms or more, half of it "
        "until it had fetched, and twice that of other followers",
        "Look at that broker's disks, network and fetcher threads.",
        "acks",
    ),
    "broker-stalls": Kind(
        "a broker held requests of one client or more for 0.5 s or longer of its own work, "
        "overlapping",
        "Look at the broker's garbage collection, disks and host at that time.",
        "slowest --of work",
    ),
    "broker-refuses-connections": Kind(
        "3 connections or more were reset before a byte, or their SYN was never answered",
        "See whether the broker runs and listens there, or a firewall is between.",
        "health",
    ),
    "authentication-fails": Kind(
        "a SASL login failed",
        "Compare the client's mechanism and credentials with the broker's.",
        "errors",
    ),
    "authorization-fails": Kind(
        "an answer with one of the AUTHORIZATION_FAILED codes",
        "Give the user the right, or the client the right resource.",
        "errors",
    ),
    "duplicates-in-log": Kind(
        "brokers gave one batch two offsets",
        "Set enable.idempotence; consumers see these records twice.",
        "delivery",
    ),
    "produce-gave-up": Kind(
        "the last try of a batch ended with an error that is no failover's",
        "See what the producer did with the records: it may have dropped them.",
        "delivery",
    ),
    "session-timeout": Kind(
        "a group lost a member that did not leave",
        "See why it was silent: killed, paused, or cut off; session.timeout.ms is how long the "
        "others waited.",
        "rebalances",
    ),
    "max-poll-exceeded": Kind(
        "a member left because its poll interval was over",
        "Raise max.poll.interval.ms, lower max.poll.records, or make the processing faster.",
        "rebalances",
    ),
    "rebalance-storm": Kind(
        "a group rebalanced 5 times or more, and more than once in 30 s on average, or stood "
        "still for a tenth of the time",
        "Find who joins and leaves: crashes, short time-outs, deployments one by one.",
        "rebalances",
    ),
    "hanging-transaction": Kind(
        "a transaction is or was open for longer than transaction.timeout.ms, or a minute where "
        "that is not known: its producer does not end it",
        "Find its producer, or abort it (kafka-transactions.sh): read_committed consumers stand "
        "still behind it.",
        "transactions",
    ),
    "transactional-id-taken-over": Kind(
        "another producer began with the same transactional id, and ended a transaction",
        "Give each instance an id of its own, unless it was a restart.",
        "transactions",
    ),
    "broker-slow": Kind(
        "p99 of what a broker works on an API is 100 ms or more, or 50 ms and 5 times that of "
        "others",
        "Look at that broker's disks and request handlers.",
        "latency --of work --by api,broker",
    ),
    "network-makes-p99": Kind(
        "60 % or more of a client's p99 of 50 ms or more are gone without the exchanges, 3 or "
        "more, that met retransmissions or full windows, of which there were 3 or more",
        "Look at the way between the two, and at who does not read (zero windows).",
        "health",
    ),
    "throttled-by-quota": Kind(
        "brokers state throttle times; a problem from 1 s on",
        "Raise the quota, or make the client ask for less.",
        "traffic --by client",
    ),
    "consumer-lag-grows": Kind(
        "a group is 1 000 records or more behind, and half more than at the start",
        "See what the group does: fewer members, slow processing, a rebalance.",
        "lag",
    ),
    "consumer-behind": Kind(
        "a group is 10 000 records or more behind, and no less than at the start",
        "It does not catch up: add members or partitions.",
        "lag",
    ),
    "commit-skips-records": Kind(
        "a group committed beyond what it had been delivered",
        "See who committed: an operator's reset, or a client that counts wrong.",
        "commits",
    ),
    "requests-unanswered": Kind(
        "3 requests or more, and 1 % of them, have no answer; those that wait for records or for "
        "others are left out",
        "See whether clients gave up (request.timeout.ms) or the broker went away.",
        "show",
    ),
    "produce-sent-again": Kind(
        "batches were sent again because no answer came, or not in time",
        "See why the broker was late; without idempotence the records may be there twice.",
        "retries",
    ),
    ERROR + "CODE": Kind(
        "an error code that no other finding explains and that is not part of the protocol; a "
        "problem when clients that write or read meet it and cannot try again",
        "The sentence says what it means and what to do.",
        "errors",
    ),
    "rebalance-stops-group": Kind(
        "a rebalance for whose cause there is no finding kept partitions from everybody for 1 s "
        "or longer",
        "Use cooperative assignors and static members, or the consumer protocol (KIP-848).",
        "rebalances",
    ),
    "client-breaks-on-4.0": Kind(
        "a client uses a version that Kafka 4.0 does not have, and does not ask for versions or "
        "takes the old one all the same",
        "Upgrade the client's library before the brokers.",
        "upgrade",
    ),
    "client-may-break-on-4.0": Kind(
        "the same of a client that might do better with newer brokers",
        "Upgrade the client's library, or try it with a newer broker.",
        "upgrade",
    ),
    "connection-churn": Kind(
        "a client connected again 20 times or more, with connections that lasted 10 s at the "
        "median or less",
        "Make one client and keep it; see whether logins or versions are refused.",
        "health",
    ),
    "connections-reset": Kind(
        "a broker reset 3 connections or more after data",
        "Look at the broker's log: idle limit, wrong protocol, out of memory.",
        "health",
    ),
    "metadata-storm": Kind(
        "100 Metadata requests or more of one client, more than one a second, and no fewer than "
        "a fifth of what it produces and fetches",
        "See whether it asks for a topic that is not there, or is made anew for each message.",
        "traffic --by client",
    ),
    "long-transaction": Kind(
        "a transaction took a minute or longer",
        "Commit more often: read_committed consumers wait for it.",
        "transactions",
    ),
    "transactions-abort": Kind(
        "5 transactions or more of one id were aborted",
        "Look at the producer's log for what made it abort.",
        "transactions",
    ),
    "records-delivered-again": Kind(
        "a group was delivered 10 records or more of a topic again",
        "Commit before leaving, and more often; see the rebalances.",
        "commits",
    ),
    "static-member-restart": Kind(
        "a static member came back with a new member id",
        "Nothing: static membership is for that.",
        "rebalances",
    ),
    "messages-undecoded": Kind(
        "0.1 % or more of the payload on Kafka's connections could not be read",
        "See the problems; a wrong port or protocol: --decode-as.",
        "table problems",
    ),
    "single-record-batches": Kind(
        "a client's batches, 100 or more, have one record in 80 % of the cases",
        "Set linger.ms, and do not flush after each record.",
        "traffic --by client",
    ),
    "empty-polls": Kind(
        "a client fetches 20 times a second or more, and gets nothing in 90 % of them",
        "Raise fetch.max.wait.ms or fetch.min.bytes.",
        "traffic --by client",
    ),
    "partition-skew": Kind(
        "a topic of 3 partitions or more has over half of its bytes, and twice the fair share, in "
        "one",
        "Look for a hot key.",
        "traffic",
    ),
    "may-lose-records": Kind(
        "producers ask for acks=0 or 1",
        "Set acks=all where records matter.",
        "delivery",
    ),
    "fetch-mostly-long-poll": Kind(
        "p99 of Fetch is 100 ms or more, and 80 % of its latency was asked for",
        "Nothing: consumers wait for records. Look at the p99 of work instead.",
        "latency --by api",
    ),
    "not-asked": Kind(
        "the engine gave up on a question",
        "Ask it alone, with more memory.",
        "",
    ),
    "no-kafka": Kind(
        "there is not one exchange",
        "Name the port (--port), or the secrets of TLS (--keylog).",
        "table connections",
    ),
    "healthy": Kind(
        "there is no problem and no warning; else only the latencies are told (`latencies`)",
        "Look at the tables below.",
        "latency",
    ),
    "latencies": Kind(
        "always, when something was produced or fetched and `healthy` is not said",
        "Compare with what clients measure themselves.",
        "latency",
    ),
}  # fmt: skip
ORDER: Final = {id_: place for place, id_ in enumerate(KINDS)}
