"""Record batches: their bytes, their compression, and control records."""
