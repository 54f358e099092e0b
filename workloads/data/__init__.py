"""Workloads on the records of partitions: logs, transactions, consumer groups."""
