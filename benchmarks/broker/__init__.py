"""Produce throughput, latency and recovery of three brokers, beside Apache Kafka's."""
