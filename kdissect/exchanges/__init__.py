"""Frame → Exchange: pairs requests with their responses; knows nothing of tables.

exchange           the value, and the words and bits on it
pairing            the stage
old_conversations  connections that speak a protocol from before 0.8
old_details        what their requests and responses say
memory             what is remembered of one connection
sides              which side is the broker
fetches            fetch sessions and long polls
merging            request and response rows of one topic-partition
timing             the parts of the latency
sniffing           where frames start, for the frames stage
"""
