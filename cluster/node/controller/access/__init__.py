"""Who may do what: access control entries and the authorizer (KIP-11, KIP-290, KIP-801)."""
