"""Requests for the controller and for the metadata, by type, and their answers."""
