"""The counters of the summary: record batches in, one `Summary` out."""
