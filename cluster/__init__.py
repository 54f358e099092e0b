"""The system under test and where it runs: KRaft nodes, their seams, and the backends."""
