"""Live: packets of a wire, as they come, to tables that rotate, to a screen, and to metrics."""
