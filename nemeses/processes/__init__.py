"""Faults of processes, and of the limits that they live in."""
