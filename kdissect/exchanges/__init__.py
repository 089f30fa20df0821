"""Frame → Exchange: pairs requests with their responses; independent of tables.

exchange           the value, and its constants and status bits
pairing            the stage
old_conversations  connections that speak a protocol from before 0.8
old_details        details of their requests and responses
connection_state   state of one connection
broker_side        which side is the broker
fetches            fetch sessions and long polls
partition_merge    request and response rows of one topic-partition
latency_parts      the parts of the latency
protocol_detection frame starts, for the frames stage
"""
