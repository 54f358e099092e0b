"""The log of metadata and its snapshots."""
