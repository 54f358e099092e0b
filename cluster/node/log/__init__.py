"""Record batches, segments and the leader-epoch cache of an append-only, replicated log."""
