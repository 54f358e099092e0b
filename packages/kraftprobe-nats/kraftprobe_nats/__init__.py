"""NATS JetStream under Kraftprobe: how it is run and used."""
