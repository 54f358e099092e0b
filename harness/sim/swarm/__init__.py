"""Draws plans for seeds, and counts what they covered."""
