"""How many simulated seconds a CPU second buys."""
