"""Captures → a smaller capture: the packets of selected exchanges, unchanged."""
