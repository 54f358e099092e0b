"""Verdicts on the linearizability of keys, and their certificates."""
