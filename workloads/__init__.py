"""What clients do, and which checks judge it."""
