"""Faults of wall clocks and of the rate of time-outs."""
