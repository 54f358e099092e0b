"""Directed links between nodes: cut, shaped, held and measured."""
