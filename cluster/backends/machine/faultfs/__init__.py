"""A pass-through FUSE filesystem over a node's data folder that stalls, fails and loses power."""
