"""Processes of a run: their life, their records, and whether they can be signalled."""
