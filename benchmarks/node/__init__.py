"""Throughput, latency and fail-over of three local nodes, beside PySyncObj."""
