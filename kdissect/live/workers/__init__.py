"""Several processes that share the packets of interfaces: docs/live-workers.md.

forking          starts them, before any threads
messages         between the first process and a worker: orders and reports
reporter         a worker's side
supervisor       the first process's side
totals           statuses as one
summed_metrics   metrics as one
"""
