"""What a broker serves to clients: Produce, Fetch, offsets, producers, log directories."""
