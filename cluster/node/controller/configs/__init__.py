"""What can be configured: Kafka's own definitions, what they allow, and what clients are shown."""
