"""Generators, interpreter, schedule, campaign and the command line."""
