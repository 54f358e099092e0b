"""The KRaft node: log, consensus, controller, broker, protocol, security and what runs them."""
