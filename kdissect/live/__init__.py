"""Live: packets of a packet source, as they come, to tables that rotate, to a screen, and to
metrics.
"""
