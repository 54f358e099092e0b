"""The simulated world: seams whose time, loss and failures a test decides."""
