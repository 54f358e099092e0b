"""How fast the checkers judge, beside Porcupine on the same machine in the same run."""
