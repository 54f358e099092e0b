"""Logs of partitions, their producers' states, and the log directories of a broker."""
