"""The law of live capture: its tables are those of a capture that tcpdump wrote meanwhile.

Both sockets see the same packets, and the kernel takes the time of each once, so rows are compared
with all that they say: ids, packet numbers, times in ns.
"""
