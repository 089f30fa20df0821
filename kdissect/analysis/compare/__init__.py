"""Changes between two captures, or between two time ranges of one."""
