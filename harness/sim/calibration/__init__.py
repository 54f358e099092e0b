"""Calibration: which faulty nodes the drawn worlds find, and how often they accuse the true one."""
