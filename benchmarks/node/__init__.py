"""Load on nodes: a closed loop of clients, fail-overs, and one request at a time."""
