"""Probes what works on this machine, and refuses plans whose faults do not."""
