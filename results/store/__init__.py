"""The run store: files of a run, their tables and digests, and what they say of it."""
