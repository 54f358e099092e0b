"""Consensus core: quorum state, its six epoch states, and the raft client (KIP-595, KIP-996)."""
