"""TLS and SASL: what a listener asks of its clients, and how a node connects itself."""
