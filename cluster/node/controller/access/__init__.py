"""Access control: entries in the metadata and the authorizer (KIP-11, KIP-290, KIP-801)."""
