"""Faults of disks, of files, and of log directories."""
