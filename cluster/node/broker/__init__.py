"""The broker role of a node."""
