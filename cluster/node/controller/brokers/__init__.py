"""Registrations and sessions of brokers and controllers."""
