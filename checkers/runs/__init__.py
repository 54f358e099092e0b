"""Checks and figures of a run as a whole, from its journal and the faults in it."""
