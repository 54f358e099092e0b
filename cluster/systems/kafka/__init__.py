"""Apache Kafka itself as the system under test: its own nodes, its own logs.

| file | what |
|---|---|
| `kind.py` | what a plan may ask of it, and what it promises |
| `roles.py` | which node is a controller, a broker or both |
| `installation.py` | where it is installed, and which Java runs it |
| `kafka_system.py` | how a node is configured and started |
| `start.py` | the program that formats a node's folder once and then becomes the JVM |
| `output_traces.py` | the trace of a node, made from what it logged |
"""
