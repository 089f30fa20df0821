"""A peer for scale: dpkt takes every packet apart, and TCP payload bytes are counted.

python -m benchmarks.dpkt_loop CAPTURE.pcap
"""

import sys
from pathlib import Path

import dpkt


def main() -> None:
    packets = payload = 0
    with Path(sys.argv[1]).open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            packets += 1
            ip = dpkt.ethernet.Ethernet(data).data
            if isinstance(ip, dpkt.ip.IP) and isinstance(ip.data, dpkt.tcp.TCP):
                payload += len(ip.data.data)
    print(packets, payload)


if __name__ == "__main__":
    main()
