"""Released KafkaRaftClients as nodes of the simulated world: a JVM for each release, over pipes."""
