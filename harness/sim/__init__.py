"""The simulated arm of the harness: scenarios, swarm, runner, shrinker, fan-out.

`scenario` is the data that decides a run, `draw` makes one from a seed, `runner` runs one, `shrink`
makes a failing one small, `story` tells it, `batch` runs many.
"""
