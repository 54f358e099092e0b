"""Faults of processes and of the containers and limits that they live in."""
