"""Text from the wire made harmless for a terminal or a spreadsheet, see `kdissect.escape`."""

from kdissect.escape import FORMULA_STARTS, csv_safe, escaped

__all__ = ["FORMULA_STARTS", "csv_safe", "escaped"]
