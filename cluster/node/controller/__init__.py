"""The metadata state machine: records, image, and the active controller."""
