"""Runs many seeds, keeps their rows, and judges a batch for the gate."""
