"""What a history is, and what makes it right or wrong: pure functions, usable alone."""
