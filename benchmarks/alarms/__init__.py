"""Whether campaigns on a node without a planted fault ever end in an alarm."""
