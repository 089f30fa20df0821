"""The law of live capture: its tables equal those of a simultaneous capture by tcpdump.

Both sockets see the same packets, and the kernel timestamps each once, so rows are compared with
all their values: ids, packet numbers, times in ns.
"""
