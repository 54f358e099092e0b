"""What runs inside a host, by itself: `machine.programs.run_program` sends a module's source there.

A module here imports the standard library alone, and each function takes and returns what JSON can
hold. The host need not have this package's files.
"""
