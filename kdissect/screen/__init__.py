"""The screen of `kdissect top`: shows snapshots, independent of their origin.

Only `app`, `widgets` and `pages` need Textual; the content of lines is computed without it.
"""
