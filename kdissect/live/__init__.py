"""Live capture: packets of a packet source → rotating tables, a screen, and metrics."""
