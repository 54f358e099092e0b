"""What kio knows of a schema, and reading it without trust: for messages and control records."""
