"""Clients of the harness: they never retry and say how certain a failure is."""
