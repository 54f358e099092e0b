"""Signals: those that stop a run, and the timer that ends a blocked event loop."""
