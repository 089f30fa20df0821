"""Scenarios to record: one scenario a module, or a family of them."""

from tools.record.recording import Scenario
from tools.record.scenarios import (
    administration,
    at_work,
    basics,
    client_latency,
    crashes,
    encryption,
    group_changes,
    groups,
    hanging,
    lossy_network,
    lost_answers,
    lost_brokers,
    lost_members,
    networks,
    old_clients,
    old_formats,
    policies,
    quickstart,
    quorum,
    replication,
    retries,
    security,
    slow_brokers,
    slow_pollers,
    tracing,
    transactions,
    volume,
)
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER
from tools.record.scenarios.incidents import IMPATIENT_BROKER

SCENARIOS = {
    "quickstart": Scenario(quickstart.play, quickstart.BROKER_PROPERTIES),
    "basics": Scenario(basics.play, SMALL_SINGLE_BROKER),
    "old-formats": Scenario(old_formats.play, old_formats.properties_of),
    "transactions": Scenario(transactions.play, SMALL_SINGLE_BROKER),
    "retries": Scenario(retries.play, SMALL_SINGLE_BROKER),
    "groups": Scenario(groups.play_classic, SMALL_SINGLE_BROKER),
    "consumer-groups": Scenario(groups.play_consumer_groups, SMALL_SINGLE_BROKER),
    "share-groups": Scenario(groups.play_share_groups, groups.SHARE_PROPERTIES),
    "streams": Scenario(groups.play_streams, SMALL_SINGLE_BROKER),
    "streams-groups": Scenario(groups.play_streams_groups, SMALL_SINGLE_BROKER),
    "admin": Scenario(administration.play, administration.properties_of),
    "throttling": Scenario(policies.play_throttling, SMALL_SINGLE_BROKER),
    "topic-configs": Scenario(policies.play_topic_configs, policies.CLEANING),
    "telemetry": Scenario(policies.play_telemetry, policies.telemetry_properties),
    "tracing": Scenario(tracing.play, SMALL_SINGLE_BROKER),
    "sasl": Scenario(security.play, security.properties_of, security.LAYOUT),
    "tokens": Scenario(security.play_tokens, security.properties_of, security.LAYOUT),
    "cluster": Scenario(replication.play, replication.properties_of, replication.LAYOUT),
    "voters": Scenario(
        replication.play_voters, replication.properties_of, replication.VOTERS_LAYOUT
    ),
    "tls12": Scenario(encryption.play_tls12, encryption.only_tls12, encryption.LAYOUT),
    "tls12-old": Scenario(encryption.play_tls12, encryption.only_tls12, encryption.OLD_LAYOUT),
    "tls13": Scenario(encryption.play_tls13, SMALL_SINGLE_BROKER, encryption.LAYOUT),
    "tls13-rekeyed": Scenario(
        encryption.play_rekeyed, SMALL_SINGLE_BROKER, encryption.REKEYED_LAYOUT
    ),
    "tls-resumed": Scenario(
        encryption.play_resumed, SMALL_SINGLE_BROKER, encryption.TERMINATED_LAYOUT
    ),
    "tls-closed": Scenario(encryption.play_tls13, SMALL_SINGLE_BROKER, encryption.CLOSED_LAYOUT),
    "tls-sasl": Scenario(encryption.play_sasl, SMALL_SINGLE_BROKER, encryption.SASL_LAYOUT),
    "ipv6": Scenario(networks.play, SMALL_SINGLE_BROKER, networks.IPV6_LAYOUT),
    "bridged": Scenario(networks.play, SMALL_SINGLE_BROKER, networks.BRIDGED_LAYOUT),
    "vxlan": Scenario(networks.play, SMALL_SINGLE_BROKER, networks.VXLAN_LAYOUT),
    "quorum": Scenario(quorum.play, quorum.PROPERTIES, quorum.LAYOUT),
    "incident-killed-member": Scenario(lost_members.play_killed, lost_members.KILLING),
    "incident-static-member": Scenario(lost_members.play_static, IMPATIENT_BROKER),
    "incident-slow-poller": Scenario(slow_pollers.play, IMPATIENT_BROKER),
    "incident-group-changes": Scenario(group_changes.play, IMPATIENT_BROKER),
    "incident-hanging-transaction": Scenario(hanging.play, hanging.PROPERTIES),
    "incident-old-clients": Scenario(old_clients.play, SMALL_SINGLE_BROKER),
    "incident-crashes": Scenario(crashes.play, IMPATIENT_BROKER),
    "client-latency": Scenario(client_latency.play, SMALL_SINGLE_BROKER, client_latency.LAYOUT),
    "incident-slow-follower": Scenario(
        slow_brokers.play_follower, at_work.properties_of, slow_brokers.LAYOUT
    ),
    "incident-slow-leader": Scenario(
        slow_brokers.play_leader, at_work.properties_of, slow_brokers.LAYOUT
    ),
    "incident-leader-killed": Scenario(
        lost_brokers.play_killed, lost_brokers.quick_to_fence, lost_brokers.LAYOUT
    ),
    "incident-leader-stopped": Scenario(
        lost_brokers.play_stopped, lost_brokers.quick_to_fence, lost_brokers.LAYOUT
    ),
    "incident-lagging-follower": Scenario(
        lost_brokers.play_lagging, lost_brokers.quick_to_shrink, lost_brokers.LAYOUT
    ),
    "incident-lost-answers": Scenario(lost_answers.play, SMALL_SINGLE_BROKER, lost_answers.LAYOUT),
    "incident-lossy-network": Scenario(
        lossy_network.play, SMALL_SINGLE_BROKER, lossy_network.LAYOUT
    ),
    "bulk": Scenario(volume.play_bulk, volume.BROKER_PROPERTIES),
    "small": Scenario(volume.play_small, volume.BROKER_PROPERTIES),
    "records": Scenario(volume.play_records, volume.BROKER_PROPERTIES),
    "wide": Scenario(volume.play_wide, volume.BROKER_PROPERTIES),
}
