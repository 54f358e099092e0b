"""Harnesses killed at random moments: what was recorded stays, what was made goes."""
