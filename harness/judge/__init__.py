"""Judges stored runs and prints their verdicts."""
