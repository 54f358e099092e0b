"""Finds a failure again in the simulated world, and makes its plan smaller."""
