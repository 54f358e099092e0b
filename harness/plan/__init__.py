"""The plan of a run: its document, schedule, strands, and what a run stores of it."""
