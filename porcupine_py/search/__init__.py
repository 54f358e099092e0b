"""Searches for an order of operations that a model and real time allow, and their proofs."""
