"""``kdissect spark`` and ``kdissect-job``: options, session and outcome."""
