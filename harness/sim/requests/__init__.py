"""Requests put to copies of nodes in a simulated world, and what a plain statement answers."""
