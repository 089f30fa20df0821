"""Advice for each error code: one sentence per code, for the engineer on call.

By name, because Kafka 0.7 uses some of the numbers differently. "Part of the protocol" marks
codes that healthy clients receive, too; the rest of the sentence says when they are a problem.

Longer than other modules: a table of constants.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ibis.expr.types as ir

ADVICE: Final = {
    "UNKNOWN_SERVER_ERROR": (
        "The broker hit a bug or an unexpected state: read its log at this time."
    ),
    "OFFSET_OUT_OF_RANGE": (
        "The consumer asks for records that retention deleted or that are not written yet: "
        "compare lag with retention, and choose auto.offset.reset on purpose."
    ),
    "CORRUPT_MESSAGE": (
        "A batch failed its checksum or is malformed: suspect memory, disk or a middlebox, and of "
        "a compacted topic a record without a key."
    ),
    "UNKNOWN_TOPIC_OR_PARTITION": (
        "The topic is not there, was just made or deleted, or the client may not see it: check "
        "its name, and metadata age if it lasts more than seconds."
    ),
    "INVALID_FETCH_SIZE": (
        "The fetch asks for a negative or absurd size: fix the client's fetch limits."
    ),
    "LEADER_NOT_AVAILABLE": (
        "The partition has no leader: an election is going on, or all its in-sync replicas are "
        "down if it lasts."
    ),
    "NOT_LEADER_OR_FOLLOWER": (
        "The client's metadata are old after a leader moved; it should refresh and continue, so "
        "see `failovers` for how long that takes."
    ),
    "REQUEST_TIMED_OUT": (
        "The broker could not finish in the request's own time, mostly because followers are slow "
        "to replicate: look for lagging replicas."
    ),
    "BROKER_NOT_AVAILABLE": (
        "The broker or controller that is needed is down: see which one left the cluster."
    ),
    "REPLICA_NOT_AVAILABLE": (
        "The broker asked does not have that replica (yet): normal during a reassignment, else "
        "check its log directory."
    ),
    "MESSAGE_TOO_LARGE": (
        "A batch is larger than max.message.bytes of the topic: raise that or lower the "
        "producer's batch or record size."
    ),
    "STALE_CONTROLLER_EPOCH": (
        "A broker got orders from a controller that had been replaced: part of a controller "
        "change, a split or a hanging controller if it repeats."
    ),
    "OFFSET_METADATA_TOO_LARGE": (
        "The text committed with an offset is longer than offset.metadata.max.bytes: shorten it."
    ),
    "NETWORK_EXCEPTION": (
        "A connection broke before the answer, as seen by a broker that forwards: look at the "
        "network and the broker behind it."
    ),
    "COORDINATOR_LOAD_IN_PROGRESS": (
        "The coordinator is still reading its log after it became one; clients wait and retry, so "
        "worry only if it takes more than seconds."
    ),
    "COORDINATOR_NOT_AVAILABLE": (
        "The group or transaction has no coordinator yet: normal at first use, else check that "
        "__consumer_offsets or __transaction_state has leaders."
    ),
    "NOT_COORDINATOR": (
        "The coordinator moved to another broker; the client looks it up and continues."
    ),
    "INVALID_TOPIC_EXCEPTION": (
        "The topic name is not allowed, or is an internal one that clients may not write: fix the "
        "name."
    ),
    "RECORD_LIST_TOO_LARGE": (
        "A batch is larger than a log segment: lower the producer's batch size."
    ),
    "NOT_ENOUGH_REPLICAS": (
        "Fewer replicas are in sync than min.insync.replicas, so nothing was written: bring "
        "brokers back before anything else."
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (
        "The batch was written but to too few in-sync replicas; the retry may write it twice "
        "unless the producer is idempotent."
    ),
    "INVALID_REQUIRED_ACKS": (
        "The producer asks for acks other than 0, 1 or all: fix its configuration."
    ),
    "ILLEGAL_GENERATION": (
        "The member acts for a generation that a rebalance ended; its commit is lost, so "
        "processing took longer than the rebalance allowed."
    ),
    "INCONSISTENT_GROUP_PROTOCOL": (
        "The member shares no assignor with the rest of the group, or another kind of group has "
        "the name: align partition.assignment.strategy."
    ),
    "INVALID_GROUP_ID": "The group id is empty or not allowed: set group.id.",
    "UNKNOWN_MEMBER_ID": (
        "The coordinator removed the member, mostly for missing heartbeats or "
        "max.poll.interval.ms: it must join again, find out what kept it."
    ),
    "INVALID_SESSION_TIMEOUT": (
        "session.timeout.ms is outside the broker's group.min and group.max.session.timeout.ms: "
        "change one of them."
    ),
    "REBALANCE_IN_PROGRESS": (
        "Part of the protocol: the group rebalances and the member should join again; a commit "
        "that is refused is repeated by a member later."
    ),
    "INVALID_COMMIT_OFFSET_SIZE": (
        "The commit is too large for a batch of the offsets topic: commit fewer partitions or "
        "less metadata."
    ),
    "TOPIC_AUTHORIZATION_FAILED": (
        "An ACL is missing for the topic: grant read, write or describe to the client's principal."
    ),
    "GROUP_AUTHORIZATION_FAILED": (
        "An ACL is missing for the group: grant read on it to the client's principal."
    ),
    "CLUSTER_AUTHORIZATION_FAILED": (
        "An ACL on the cluster is missing, for old idempotent producers IdempotentWrite: grant "
        "it, or see who tries."
    ),
    "INVALID_TIMESTAMP": (
        "A record's timestamp is further from the broker's clock than the topic allows: check "
        "clocks and units (ms)."
    ),
    "UNSUPPORTED_SASL_MECHANISM": (
        "The listener does not offer the client's SASL mechanism: align sasl.mechanism with the "
        "enabled ones."
    ),
    "ILLEGAL_SASL_STATE": (
        "The client sent something out of turn while logging in: suspect a client without SASL on "
        "a SASL listener."
    ),
    "UNSUPPORTED_VERSION": (
        "Part of the protocol in ApiVersions, where the client asks again lower; elsewhere client "
        "and broker have no version of the API in common."
    ),
    "TOPIC_ALREADY_EXISTS": (
        "The topic is there already: harmless in start-up scripts, and of brokers that create an "
        "internal topic at the same time."
    ),
    "INVALID_PARTITIONS": "The number of partitions is not possible; it can only grow.",
    "INVALID_REPLICATION_FACTOR": (
        "More replicas are asked for than brokers are alive: start brokers, or ask for fewer."
    ),
    "INVALID_REPLICA_ASSIGNMENT": (
        "The assignment names brokers twice, unknown ones or unequal numbers: correct it."
    ),
    "INVALID_CONFIG": "A configuration value is not valid; the message beside the code says which.",
    "NOT_CONTROLLER": (
        "The request went to a broker that is no longer the controller; the client looks it up "
        "and continues."
    ),
    "INVALID_REQUEST": (
        "The broker finds the request contradictory, mostly a client's bug: read the message "
        "beside it and the broker's log."
    ),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": (
        "The topic's old message format cannot do this (timestamps, idempotence): upgrade the "
        "format."
    ),
    "POLICY_VIOLATION": (
        "A policy that the operators installed refuses it; the message beside it says why."
    ),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": (
        "The broker misses a batch of the idempotent producer: data may have been lost before, by "
        "the producer or by an unclean election; see `delivery`."
    ),
    "DUPLICATE_SEQUENCE_NUMBER": (
        "The batch is in the log already and older than the broker remembers; nothing is lost, "
        "but see why it was retried so late."
    ),
    "INVALID_PRODUCER_EPOCH": (
        "Another producer with the same transactional id took over, or the transaction timed out: "
        "look for two instances with one id."
    ),
    "INVALID_TXN_STATE": (
        "The transaction is not in a state that allows this, mostly because it timed out or the "
        "client mixed up its calls."
    ),
    "INVALID_PRODUCER_ID_MAPPING": (
        "The producer id is not the one of the transactional id any more: it expired after "
        "transactional.id.expiration.ms, restart the producer."
    ),
    "INVALID_TRANSACTION_TIMEOUT": (
        "transaction.timeout.ms is above the broker's transaction.max.timeout.ms: change one of "
        "them."
    ),
    "CONCURRENT_TRANSACTIONS": (
        "Part of the protocol: the previous transaction's markers are being written; worry if one "
        "client meets it for seconds."
    ),
    "TRANSACTION_COORDINATOR_FENCED": (
        "The transaction coordinator moved while it wrote markers; the new one continues."
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "An ACL is missing for the transactional id: grant write on it."
    ),
    "SECURITY_DISABLED": "The broker has no authorizer, so there are no ACLs to see or change.",
    "OPERATION_NOT_ATTEMPTED": (
        "Nothing is wrong with this part; another part of the same request failed, see the error "
        "beside it."
    ),
    "KAFKA_STORAGE_ERROR": (
        "The broker's log directory failed: check the disk, its leaders should move to other "
        "brokers."
    ),
    "LOG_DIR_NOT_FOUND": "The log directory that is named is not one of that broker.",
    "SASL_AUTHENTICATION_FAILED": (
        "User or password, token or ticket is wrong or expired: see who tries, and from where."
    ),
    "UNKNOWN_PRODUCER_ID": (
        "The broker forgot the idempotent producer because its records were deleted; newer "
        "clients recover by themselves, older ones lose the order."
    ),
    "REASSIGNMENT_IN_PROGRESS": (
        "The partition is being moved already: wait for that, or cancel it."
    ),
    "DELEGATION_TOKEN_AUTH_DISABLED": (
        "The brokers have no delegation.token.secret.key: tokens are off."
    ),
    "DELEGATION_TOKEN_NOT_FOUND": "The token is unknown, mostly because it expired or was deleted.",
    "DELEGATION_TOKEN_OWNER_MISMATCH": (
        "Who renews or expires the token is neither its owner nor a renewer."
    ),
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": (
        "Tokens are asked for over a connection that was itself opened with a token or without "
        "authentication."
    ),
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "An ACL is missing to create or see tokens of others.",
    "DELEGATION_TOKEN_EXPIRED": "The token's time is over: renew earlier, or get a new one.",
    "INVALID_PRINCIPAL_TYPE": "Only principals of type User can have or renew tokens.",
    "NON_EMPTY_GROUP": "The group has members, so it cannot be deleted or reset: stop them first.",
    "GROUP_ID_NOT_FOUND": (
        "The group does not exist, has expired, or is of another kind: check the name."
    ),
    "FETCH_SESSION_ID_NOT_FOUND": (
        "Part of the protocol: the broker dropped the fetch session, and the client starts "
        "another; if it is often, raise max.incremental.fetch.session.cache.slots."
    ),
    "INVALID_FETCH_SESSION_EPOCH": (
        "Client and broker disagree on the fetch session, mostly after a lost answer; the client "
        "starts another."
    ),
    "LISTENER_NOT_FOUND": (
        "The leader has no listener of the name that the client came by: complete its listeners."
    ),
    "TOPIC_DELETION_DISABLED": "delete.topic.enable is off on the brokers.",
    "FENCED_LEADER_EPOCH": (
        "The client knows an older leader than the broker: it refreshes its metadata, part of "
        "every leader change."
    ),
    "UNKNOWN_LEADER_EPOCH": (
        "The client knows a newer leader than the broker does yet: it retries, part of every "
        "leader change."
    ),
    "UNSUPPORTED_COMPRESSION_TYPE": (
        "The codec is too new for the version or the topic, mostly zstd with an old client: "
        "choose another codec or upgrade."
    ),
    "STALE_BROKER_EPOCH": "The request belongs to an earlier life of a broker that was restarted.",
    "OFFSET_NOT_AVAILABLE": (
        "The new leader does not know its high watermark yet; clients wait, a moment after an "
        "election."
    ),
    "MEMBER_ID_REQUIRED": (
        "Part of the protocol: the first join is answered with a member id, the second has it; "
        "worry about members that join over and over."
    ),
    "PREFERRED_LEADER_NOT_AVAILABLE": (
        "The preferred replica is down or not in sync: let it catch up, then elect again."
    ),
    "GROUP_MAX_SIZE_REACHED": "The group is as large as group.max.size allows.",
    "FENCED_INSTANCE_ID": (
        "Two members have the same group.instance.id, and the newer one won: make the ids unique."
    ),
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": (
        "No replica that may lead is alive: bring one back, or accept an unclean election."
    ),
    "ELECTION_NOT_NEEDED": "The leader is the preferred one already; nothing to do.",
    "NO_REASSIGNMENT_IN_PROGRESS": "There is no reassignment to cancel; nothing to do.",
    "GROUP_SUBSCRIBED_TO_TOPIC": (
        "Offsets cannot be deleted while the group reads the topic: stop its members first."
    ),
    "INVALID_RECORD": (
        "The broker refuses a record for what it is, like one without a key for a compacted "
        "topic; the message beside it says which."
    ),
    "UNSTABLE_OFFSET_COMMIT": (
        "A transaction that commits these offsets is still open, so the consumer waits for it: "
        "look for a hanging one with `transactions`."
    ),
    "THROTTLING_QUOTA_EXCEEDED": (
        "The client changes topics faster than its controller_mutation_rate quota: slow down or "
        "raise it."
    ),
    "PRODUCER_FENCED": (
        "Another producer with the same transactional id took over: look for two instances with "
        "one id."
    ),
    "RESOURCE_NOT_FOUND": "The resource to describe or delete does not exist, mostly a SCRAM user.",
    "DUPLICATE_RESOURCE": "The request names the same thing twice.",
    "UNACCEPTABLE_CREDENTIAL": (
        "The SCRAM credential is empty, or its iterations are too few or too many."
    ),
    "INCONSISTENT_VOTER_SET": (
        "Controllers have different lists of voters: align controller.quorum.voters."
    ),
    "INVALID_UPDATE_VERSION": (
        "The update is older than what the leader has; it is not applied, and retried with the "
        "newer state."
    ),
    "FEATURE_UPDATE_FAILED": (
        "A feature level could not be changed, mostly because a broker does not support it: "
        "upgrade all brokers first."
    ),
    "PRINCIPAL_DESERIALIZATION_FAILURE": (
        "The controller cannot read the principal a broker forwards: both need the same "
        "principal.builder.class."
    ),
    "SNAPSHOT_NOT_FOUND": (
        "The metadata snapshot was replaced meanwhile; the replica asks for the newer one."
    ),
    "POSITION_OUT_OF_RANGE": (
        "The replica asks beyond the end of a metadata snapshot; it starts it again."
    ),
    "UNKNOWN_TOPIC_ID": (
        "The broker has no topic of that id: it was just created, or deleted and recreated, so the "
        "client refreshes its metadata."
    ),
    "DUPLICATE_BROKER_REGISTRATION": (
        "Two brokers register with one node.id, or the last life of the same one has not timed "
        "out yet."
    ),
    "BROKER_ID_NOT_REGISTERED": (
        "The controller does not know that broker: it registers again, or its id is wrong."
    ),
    "INCONSISTENT_TOPIC_ID": (
        "Topic id and partition's log do not match: the topic was deleted and recreated; stale "
        "metadata or a stale log."
    ),
    "INCONSISTENT_CLUSTER_ID": (
        "The node belongs to another cluster: check its meta.properties and whom it is pointed at."
    ),
    "TRANSACTIONAL_ID_NOT_FOUND": "No transaction state of that id: a typing error, or it expired.",
    "FETCH_SESSION_TOPIC_ID_ERROR": (
        "Part of an upgrade: the fetch session mixes topic names and ids, and the client starts "
        "another."
    ),
    "INELIGIBLE_REPLICA": (
        "The leader wants a replica in sync that is fenced or shutting down; the controller "
        "refuses until it is back."
    ),
    "NEW_LEADER_ELECTED": "The change of replicas chose another leader; the old one steps back.",
    "OFFSET_MOVED_TO_TIERED_STORAGE": (
        "The follower wants records that only tiered storage has; it rebuilds its state from there."
    ),
    "FENCED_MEMBER_EPOCH": (
        "The member's epoch is not the group's: it gives up its partitions and joins again; see "
        "why it fell behind."
    ),
    "UNRELEASED_INSTANCE_ID": (
        "A static member with that group.instance.id is still in the group: make ids unique, or "
        "wait for its session to end."
    ),
    "UNSUPPORTED_ASSIGNOR": (
        "The group's brokers do not have the assignor that is asked for: choose one of "
        "group.consumer.assignors."
    ),
    "STALE_MEMBER_EPOCH": (
        "Part of the protocol: the member acts with an epoch that a heartbeat has not renewed "
        "yet, and tries again."
    ),
    "MISMATCHED_ENDPOINT_TYPE": (
        "The request is for controllers and went to a broker, or the other way round: check "
        "bootstrap.servers and bootstrap.controllers."
    ),
    "UNSUPPORTED_ENDPOINT_TYPE": (
        "The node does not know the kind of endpoint that is asked for: it is older than the "
        "client."
    ),
    "UNKNOWN_CONTROLLER_ID": "The controller id is not one of the quorum.",
    "UNKNOWN_SUBSCRIPTION_ID": (
        "The metrics subscription changed; the client gets the new one before it pushes again."
    ),
    "TELEMETRY_TOO_LARGE": (
        "The client pushes more metrics than telemetry.max.bytes: subscribe to fewer, or raise it."
    ),
    "INVALID_REGISTRATION": (
        "The controller refuses the broker's registration, mostly for its listeners or features: "
        "read the controller's log."
    ),
    "TRANSACTION_ABORTABLE": "The transaction cannot be committed: abort it and do it again.",
    "INVALID_RECORD_STATE": (
        "The share consumer acknowledges a record that it does not hold any more, mostly because "
        "its lock timed out: process faster, or lengthen the lock."
    ),
    "SHARE_SESSION_NOT_FOUND": (
        "The broker dropped the share session; the client starts another, and records that it "
        "held come again."
    ),
    "INVALID_SHARE_SESSION_EPOCH": (
        "Client and broker disagree on the share session; the client starts another."
    ),
    "FENCED_STATE_EPOCH": "The share-group state has a newer owner; the older one stops.",
    "INVALID_VOTER_KEY": (
        "Voter id and directory id do not belong together, or the message reached the wrong "
        "controller."
    ),
    "DUPLICATE_VOTER": "The controller is a voter already; nothing to do.",
    "VOTER_NOT_FOUND": "The controller is not among the voters; check id and directory id.",
    "INVALID_REGULAR_EXPRESSION": (
        "The subscription's pattern is not valid RE2: fix it (no look-ahead, no back-references)."
    ),
    "REBOOTSTRAP_REQUIRED": (
        "The broker tells the client to start again from bootstrap.servers, mostly because it "
        "knows another cluster or node."
    ),
    "STREAMS_INVALID_TOPOLOGY": (
        "The topology of the Streams application is not valid for its topics: compare partition "
        "counts of the joined topics."
    ),
    "STREAMS_INVALID_TOPOLOGY_EPOCH": (
        "The topology epoch is not one that the group knows: deploy in order."
    ),
    "STREAMS_TOPOLOGY_FENCED": (
        "The member has an older topology than the group: finish the rolling upgrade."
    ),
    "SHARE_SESSION_LIMIT_REACHED": (
        "The broker has no room for more share sessions: raise group.share.max.share.sessions, or "
        "use fewer consumers."
    ),
    "GROUP_DELETION_FAILED": (
        "The group could not be deleted; the message beside it says why, try again."
    ),
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": (
        "The broker could not keep the description of the topology: read its log."
    ),
    "CONTROLLER_ID_NOT_REGISTERED": (
        "That controller has not registered with the quorum: check that it is up and its id is "
        "right."
    ),
}


# The same where an API means something else by a code.
ADVICE_OF_API: Final = {
    ("UpdateFeatures", "INVALID_UPDATE_VERSION"): (
        "The cluster cannot have the feature at this level: a broker does not support it, or the "
        "feature is not known; `kafka-features describe` shows the levels that are."
    ),
    ("LeaveGroup", "UNKNOWN_MEMBER_ID"): (
        "The coordinator had removed the member before it left: harmless at a shutdown, else find "
        "out what kept it from its heartbeats."
    ),
    ("OffsetCommit", "UNKNOWN_MEMBER_ID"): (
        "The coordinator has removed the member and refuses its commit, so the records are "
        "delivered again: find out what kept it from its heartbeats or from polling."
    ),
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"): (
        "The coordinator has removed the member and refuses its offsets, so the transaction must "
        "be aborted: find out what kept it from its heartbeats or from polling."
    ),
}
UNKNOWN_PREFIX: Final = "error-"
UNKNOWN_CODE: Final = (
    "Apache Kafka has no such error code: the broker is another product or newer than this "
    "program, or what was decoded is not an error code."
)


def advice_of(name: str, apis: Iterable[str] = ()) -> str:
    """The advice for an error of these APIs; "" when none exists."""
    own = {ADVICE_OF_API.get((api, name)) for api in apis}
    found = own.pop() if len(own) == 1 else None
    if found is not None:
        return found
    return UNKNOWN_CODE if name.startswith(UNKNOWN_PREFIX) else ADVICE.get(name, "")


def advice_for(name: "ir.StringValue", api: "ir.StringValue") -> "ir.StringValue":
    """The advice for an error of that name in responses of the API; null when none exists.

    `api` is null for responses of several APIs.
    """
    import ibis

    of_api = [((api == key) & (name == error), text)
              for (key, error), text in ADVICE_OF_API.items()]  # fmt: skip
    general = name.cases(*ADVICE.items(), else_=None)
    is_unknown = name.startswith(UNKNOWN_PREFIX)
    return ibis.cases(*of_api, (is_unknown, UNKNOWN_CODE), else_=general)
