"""Decodes what nodes left on their disks, as evidence for the white-box checks."""
