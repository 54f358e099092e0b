"""Hosts behind ssh: inventory, connections, an agent on each host, and the provider over them."""
