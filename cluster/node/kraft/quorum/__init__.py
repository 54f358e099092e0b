"""The epoch state of a replica, its voters, and what a leader knows of the others."""
