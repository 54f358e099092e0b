"""How a node fares with frames that no client should send: `python -m benchmarks.wire`."""
