"""The engine: plays a plan on a backend, from the first start of nodes to the last stop."""
