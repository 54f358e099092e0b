"""Faults of the quorum: changed voters, resigned leaders, snapshots."""
