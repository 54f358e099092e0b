"""TLS and SASL: what a listener asks of those who connect, and how a node connects itself."""
