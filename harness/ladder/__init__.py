"""Known bugs of released systems, each with what must FAIL by it and what must PASS."""
