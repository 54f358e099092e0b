"""The Kafka wire protocol on kio: the only place that knows bytes."""
