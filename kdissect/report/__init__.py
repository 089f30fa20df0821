"""The report: one self-contained HTML page about captures or datasets.

    asked         diagrams that a caller asks for
    columns       columns of the kept tables that a report reads beside those of the rules
    ends          broker of each connection
    rows          a batch of exchanges, read once for all of the following
    topics        topics of each exchange
    axis          time bins of a page, latency bins of a heat map
    timeline      exchanges, errors, bytes and percentiles by time bin
    heat          latency and its parts by time bin, for the largest names of each dimension
    edges         traffic between clients, brokers and topics
    evidence      exchanges behind each finding
    sequences     messages around the slowest exchange of a finding
    partitions    the table of partitions
    happenings    rebalances, failovers and lag of groups on the time axis
    losses        time bins in which the capture has problems
    connections   the table of connections
    tables        tables of the page with the meaning of each column
    build         all of these from the rows that a summary pass has kept
    site          a page for each day, and a calendar of them
    serving       a page served on loopback, which renews itself
    changes       the page about a comparison of two captures
    document      the data of the page, limited in size, and the page around it

The capture is read once. The rows that findings are queried from are kept on disk by that pass; the
report scans them again, a batch at a time.
"""
