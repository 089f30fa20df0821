"""Captures → a smaller capture: the packets of chosen exchanges, as they were."""
