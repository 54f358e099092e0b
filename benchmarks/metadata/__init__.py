"""What much metadata costs a node: `python -m benchmarks.metadata`."""
