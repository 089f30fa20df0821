"""The classes of incidents, by what they happen to."""
