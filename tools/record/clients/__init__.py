"""Agents: one process a client library, all obeying the same commands on stdin."""
