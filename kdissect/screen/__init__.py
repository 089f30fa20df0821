"""The screen of `kdissect top`: shows snapshots, and knows nothing of where they come from.

Only `app`, `widgets` and `pages` need Textual; what a line says is decided without it.
"""
