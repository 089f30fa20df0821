"""Splits of captures dissected alone, and put together so that nothing shows it
(docs/splits.md).
"""
