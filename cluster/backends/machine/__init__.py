"""Faults of a machine's clock, disk and limits, by means of the operating system, over a `Host`."""
