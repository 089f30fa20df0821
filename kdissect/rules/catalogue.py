"""The ids of findings: condition, advice, and the command for more.

print_docs generates the table of docs/summary.md from it. Longer than other modules: a table of
constants.
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
        "Capture again with a larger buffer (tcpdump -B) or a filter; counts are lower bounds.",
        "health",
    ),
    "connections-encrypted": Kind(
        "TLS connections cannot be decrypted, and are a tenth of the payload or more, or all "
        "of it",
        "Pass the session secrets with --keylog.",
        "table connections",
    ),
    "failover-blackout": Kind(
        "partitions that had been served could not be written or read until another broker, or "
        "the same one again, served them, or metadata has no leader of theirs for 1 s; a problem "
        "from 1 s on. A notice where leaders were moved and the broker itself said so (a planned "
        "restart), below 1.5 s, or below 5 s where it refused each partition once to writers and "
        "once to readers. A single refusal "
        "without a later attempt does not count: the new leader may not be in the capture",
        "See why the old broker lost them, and which client took longest to find the new one.",
        "failovers",
    ),
    "broker-unreachable": Kind(
        "clients sent data or a SYN to a broker again for 2.5 s or longer, without any "
        "acknowledgment, in a capture of both directions; the host of a paused process "
        "acknowledges, and that of an ended one resets the connection",
        "Look at the broker's host and the network to it: routes, firewalls, links.",
        "health --by client_id,client_ip,broker",
    ),
    "replicas-missing": Kind(
        "NOT_ENOUGH_REPLICAS: fewer replicas in sync than min.insync.replicas",
        "Restart the missing brokers; producers with acks=all cannot write until then.",
        "failovers",
    ),
    "tls-on-plaintext-port": Kind(
        "2 connections or more on which a client began TLS, and the broker ended them unanswered",
        "Compare security.protocol of the client with the listener's protocol.",
        "table connections",
    ),
    "plaintext-on-tls-port": Kind(
        "2 connections or more on which a client did not speak TLS, and the broker answered with "
        "an alert",
        "Set security.protocol to SSL or SASL_SSL, or use the plaintext listener.",
        "table connections",
    ),
    "authentication-fails": Kind(
        "a SASL login failed",
        "Compare the client's mechanism and credentials with the broker's.",
        "errors",
    ),
    "authorization-fails": Kind(
        "a response with one of the AUTHORIZATION_FAILED codes",
        "Grant the user the missing ACL, or correct the resource name in the client.",
        "errors",
    ),
    "produce-latency-slow-follower": Kind(
        "acks=all: where one follower replicated last, p99 is 50 ms or more, half of it "
        "replication and twice that of other followers, and its median is no lower than theirs; "
        "with 10 to 99 requests the longest counts, as a warning",
        "Look at that broker's disks, network and fetcher threads.",
        "acks",
    ),
    "broker-stalls": Kind(
        "no response of the broker on any connection for 0.5 s or longer, while a request waited; "
        "a warning if only Produce with acks=all or commits waited, two at once or three times, "
        "since a slow follower explains that, too",
        "Look at the broker's garbage collection, disks and host at that time.",
        "slowest --of work --number 300",
    ),
    "acks-0-records-lost": Kind(
        "a producer writes with acks=0, and a broker closed or refused connections of its address",
        "Set acks=1 or all: with acks=0 a producer never learns of a loss.",
        "health --by client_id,client_ip,broker",
    ),
    "broker-refuses-connections": Kind(
        "3 connections or more were reset before a byte, or their SYN was never answered, in a "
        "capture of both directions; a problem where none succeeded in ten seconds or more",
        "Check that the broker is running and listening there, and look for a firewall in between.",
        "health --by client_id,client_ip,broker",
    ),
    "advertised-listener-unreachable": Kind(
        "a client requested metadata and neither wrote, read nor joined a group, without being "
        "refused: 5 times or more on half as many connections, or 10 times and once a second",
        "Compare advertised.listeners with what the client can resolve and reach.",
        "traffic --by client_id",
    ),
    "duplicates-in-log": Kind(
        "brokers gave one batch two offsets",
        "Set enable.idempotence; consumers see these records twice.",
        "delivery",
    ),
    "produce-gave-up": Kind(
        "the last attempt of a batch ended with an error that is not part of a failover",
        "Check what the producer did with the records: it may have dropped them.",
        "delivery",
    ),
    "session-timeout": Kind(
        "a group lost a member that did not leave; or a client sent nothing to its coordinator for "
        "6 s or longer (10 s with the consumer protocol), and was refused as an unknown member "
        "then",
        "Check why it was silent: killed, paused, or disconnected; session.timeout.ms (of the "
        "client, or with KIP-848 of the group) is how long its partitions stalled.",
        "rebalances",
    ),
    "max-poll-exceeded": Kind(
        "a member left because it exceeded its poll interval",
        "Raise max.poll.interval.ms, lower max.poll.records, or speed up processing.",
        "rebalances",
    ),
    "rebalance-storm": Kind(
        "a group rebalanced 5 times or more, more than once in 30 s on average, and its partitions "
        "stalled for a tenth of the time; a notice where the group had been empty each time since "
        "its members left, for less than half of the time",
        "Find the members that join and leave: crashes, short timeouts, rolling deployments.",
        "rebalances",
    ),
    "hanging-transaction": Kind(
        "a transaction is or was open for longer than transaction.timeout.ms, or a minute where "
        "that is not known: its producer does not end it",
        "Find its producer, or abort it (kafka-transactions.sh): read_committed consumers stall "
        "behind it.",
        "transactions",
    ),
    "transactional-id-taken-over": Kind(
        "another producer with the same transactional id aborted an open transaction",
        "Use a unique id for each instance, unless it was a restart.",
        "transactions",
    ),
    "broker-slow": Kind(
        "p99 of the broker time of an API, without the round trip to a broker that is far from the "
        "capture, is 100 ms or more, or 50 ms and 5 times that of other brokers; or its full "
        "windows make 60 % of a client's p99 of 50 ms or more: it does not read requests. A "
        "warning where it may wait for followers: only Produce with acks=all and commits are slow",
        "Look at that broker's disks and request handlers.",
        "latency --of work --by api,broker",
    ),
    "network-makes-p99": Kind(
        "a client's p99 of 50 ms or more drops by 60 % or more without the exchanges (3 or more) "
        "that had retransmissions or full windows; most of these (3 or more) were "
        "retransmissions, of bytes that the receiver did not report as duplicate (D-SACK)",
        "Look at the network between the two.",
        "health --by client_id,client_ip,broker",
    ),
    "receiver-does-not-read": Kind(
        "the same, where most were full windows of the client: it did not read the data that had "
        "arrived; or its windows were full in all of its exchanges, for 60 % of their time",
        "Find out what blocks it: processing between reads, a pause, too little memory or CPU.",
        "health --by client_id,client_ip,broker",
    ),
    "client-fills-link": Kind(
        "responses that take 50 ms or more to arrive are 80 % of the payload, and keep a client "
        "receiving for 30 % of the time; windows are not full",
        "Give it a quota (consumer_byte_rate), or a link of its own.",
        "table exchanges --where 'download_ns >= 5e7' "
        "--columns client_id,download_ns,response_size",
    ),
    "round-trip-makes-latency": Kind(
        "a round trip between client and broker takes 20 ms or more, p99 no more than 4 of them, "
        "in 100 exchanges or more",
        "Move the client, or send fewer and larger requests: linger.ms, fetch.min.bytes.",
        "health --by client_id,client_ip,broker",
    ),
    "throttled-by-quota": Kind(
        "responses have throttle times; a problem from 1 s on",
        "Raise the quota, or reduce the load of the client.",
        "traffic --by client_id,client_ip",
    ),
    "consumer-lag-grows": Kind(
        "lag of a group is 1 000 records or more, and half more than at the start; or its oldest "
        "uncommitted record is 10 s old, 5 s older than at the start, and older after each commit",
        "Check the group: fewer members, slow processing, a rebalance.",
        "lag --window 5s",
    ),
    "consumer-behind": Kind(
        "lag of a group is 10 000 records or more, and no less than at the start",
        "It does not catch up: add members or partitions.",
        "lag --window 5s",
    ),
    "commit-skips-records": Kind(
        "a client committed beyond the records delivered to its group, on a partition that it "
        "fetched",
        "Check the committer: it commits undelivered records, or skips some on purpose.",
        "commits",
    ),
    "requests-unanswered": Kind(
        "3 requests or more, and 1 % of them, have no response, or no request has one; APIs that "
        "wait for records or for other members are left out",
        "Check whether clients timed out (request.timeout.ms) or the broker stopped.",
        "table exchanges --where \"outcome = 'unanswered' and "
        "decode_status not like '%response-not-captured%'\"",
    ),
    "produce-sent-again": Kind(
        "batches were retried because no response came in time",
        "Check why the broker was late; without idempotence the records may be duplicated.",
        "retries",
    ),
    ERROR + "CODE": Kind(
        "an error code that no other finding explains and that is not part of the protocol; a "
        "problem when clients that write or read receive it and cannot retry",
        "The sentence says what it means and what to do.",
        "errors",
    ),
    "rebalance-stops-group": Kind(
        "rebalances that no other finding explains left partitions unread for 1 s or "
        "longer, or members of an eager assignor waited so long for others after they had been "
        "told to join again; a notice where it was less than 5 s, once or twice",
        "Use cooperative assignors and static members, or the consumer protocol (KIP-848).",
        "rebalances",
    ),
    "member-fenced": Kind(
        "a coordinator refused a heartbeat of the consumer or streams protocol (KIP-848, 1071) as "
        "FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID, the member joined again, and was assigned no "
        "partitions for 1 s or longer; a notice where it was less than 5 s, once or twice",
        "See what the member sent before: a silence (paused, disconnected), or an old epoch. It "
        "waits until the others have given up what it is assigned.",
        "rebalances",
    ),
    "client-breaks-on-4.0": Kind(
        "a client uses a version that Kafka 4.0 removed, and does not negotiate versions or uses "
        "the old one regardless",
        "Upgrade the client's library before the brokers.",
        "upgrade",
    ),
    "client-may-break-on-4.0": Kind(
        "the same, for a client that may negotiate a newer version with newer brokers",
        "Upgrade the client's library, or try it with a newer broker.",
        "upgrade",
    ),
    "connection-churn": Kind(
        "a client reconnected 20 times or more, with a median connection lifetime of 10 s or less",
        "Create one client and reuse it; check whether logins or versions are rejected.",
        "health --by client_id,client_ip,broker",
    ),
    "connections-reset": Kind(
        "a broker reset 3 connections or more after data; a problem where it answered nothing on "
        "them, not even ApiVersions",
        "Look at the broker's log: max.connections.per.ip, idle limit, wrong protocol, out of "
        "memory.",
        "health --by client_id,client_ip,broker",
    ),
    "metadata-storm": Kind(
        "100 Metadata requests or more of one client, more than one a second, and no fewer than "
        "a fifth of what it produces and fetches; those after a refusal of a broker that does not "
        "lead do not count",
        "Check whether it requests a topic that does not exist, or is recreated per message.",
        "traffic --by client_id,client_ip",
    ),
    "long-transaction": Kind(
        "a transaction took a minute or longer",
        "Commit more often: read_committed consumers wait for it.",
        "transactions",
    ),
    "transactions-abort": Kind(
        "5 transactions or more of one id were aborted",
        "Look for the cause in the producer's log.",
        "transactions",
    ),
    "records-delivered-again": Kind(
        "10 records or more of a topic were redelivered to a group",
        "Commit before leaving, and more often; see the rebalances.",
        "commits",
    ),
    "share-group-redelivers": Kind(
        "10 records or more of a topic were delivered again to a share group",
        "Check why members release records or take longer than the record lock lasts "
        "(group.share.record.lock.duration.ms); records at the delivery limit are not "
        "delivered again.",
        "commits",
    ),
    "coordinator-moved": Kind(
        "clients of a group got no response for 2 s or more, three times as long as usual, until "
        "another broker was its coordinator",
        "Check why the broker went away. Members stay in the group when session.timeout.ms is "
        "longer than the move.",
        "table exchanges --where 'group_id is not null' "
        "--columns response_end,client_id,group_id,api,error,connection_id",
    ),
    "static-member-restart": Kind(
        "a static member rejoined with a new member id",
        "Nothing: this is what static membership is for.",
        "rebalances",
    ),
    "messages-undecoded": Kind(
        "0.1 % or more of the payload on Kafka connections could not be decoded",
        "See `kdissect table problems`; a wrong port or protocol: --decode-as.",
        "table connections --where \"protocol like 'kafka%' and "
        "skipped_bytes_to_broker + skipped_bytes_to_client > 0\" "
        "--columns connection_id,skipped_bytes_to_broker,skipped_bytes_to_client",
    ),
    "idle-connections-closed": Kind(
        "a broker closed 3 connections or more after about the same idle time of 1 s or longer, "
        "and clients connected again",
        "Set connections.max.idle.ms of the client below that of the broker.",
        "health --by client_id,client_ip,broker",
    ),
    "single-record-batches": Kind(
        "80 % of a client's batches, 100 or more and 20 a second, have one record",
        "Set linger.ms, and do not flush after each record.",
        "traffic --by client_id,client_ip",
    ),
    "broker-recompresses": Kind(
        "a topic was produced with one codec and fetched with another one",
        "Set compression.type of the topic to producer, or to the codec of its producers.",
        "traffic",
    ),
    "empty-polls": Kind(
        "a client fetches 20 times a second or more, and 90 % of the responses are empty",
        "Raise fetch.max.wait.ms or fetch.min.bytes.",
        "traffic --by client_id,client_ip",
    ),
    "partition-skew": Kind(
        "one partition of a topic of 3 or more has over half of its bytes, and twice its share",
        "Look for a hot key.",
        "traffic",
    ),
    "may-lose-records": Kind(
        "producers use acks=0 or 1",
        "Set acks=all where records must not be lost.",
        "delivery",
    ),
    "fetch-mostly-long-poll": Kind(
        "p99 of Fetch is 100 ms or more, and 80 % of its latency is long poll",
        "Nothing: consumers wait for records. Look at the p99 of broker time instead.",
        "latency --by api",
    ),
    "not-asked": Kind(
        "the engine could not run an analysis",
        "Run it alone, with more memory.",
        "",
    ),
    "no-kafka": Kind(
        "there are no exchanges",
        "Specify the port (--port), or pass the TLS secrets (--keylog).",
        "table connections",
    ),
    "healthy": Kind(
        "there is no problem and no warning; else only the latencies are reported (`latencies`)",
        "Look at the tables below.",
        "latency",
    ),
    "latencies": Kind(
        "always, when something was produced or fetched and `healthy` is not reported",
        "Compare with the clients' own measurements.",
        "latency",
    ),
}  # fmt: skip
ORDER: Final = {id_: place for place, id_ in enumerate(KINDS)}
