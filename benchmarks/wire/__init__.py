"""What frames that no client should send do to a node: `python -m benchmarks.wire`."""
