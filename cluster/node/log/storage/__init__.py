"""The files that logs of metadata and of data share: segments, indexes, epochs, checkpoints."""
