"""One fault each: probe, inject, verify, heal."""
