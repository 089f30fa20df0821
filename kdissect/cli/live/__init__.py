"""``kdissect live``: options, start, one run of one process or of several workers."""
