"""The metadata that records build up: state, image and delta, replay, loading and snapshots."""
