"""The simulated arm of the harness: swarm, runner, shrinker, fan-out.

`draw` makes a plan from a seed, `runner` runs one and judges it, `shrink` makes a failing one
small, `story` says what happened, `batch` runs many, `reproduce` looks for what a run on real nodes
showed.
"""
