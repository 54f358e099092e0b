"""Changes of partitions: leaders, ISRs, replicas and their directories."""
