"""Judging stored runs and lone files: in this process, or by Spark."""
