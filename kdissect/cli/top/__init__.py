"""``kdissect top``: options, the capture behind the screen, and its page of text."""
