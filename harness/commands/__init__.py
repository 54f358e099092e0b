"""The commands of `kraftprobe`, one module for each group of them that belongs together."""
