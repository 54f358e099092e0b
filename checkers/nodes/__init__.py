"""Checks of what nodes left behind: against each other, the history, and the rules of Raft."""
