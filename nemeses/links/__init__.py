"""Faults of links: partitions, shaped links, held messages."""
