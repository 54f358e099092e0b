"""The replicas of a broker: partitions that it leads, and logs that it fetches."""
