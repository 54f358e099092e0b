"""Where a system runs, and how its processes and links are reached and hurt."""
