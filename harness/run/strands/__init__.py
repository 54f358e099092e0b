"""Plays the strands of a plan: steps, conditions, target words, excused deaths."""
