"""Guarantees weaker than linearizability: sessions of one register, and objects that only grow."""
