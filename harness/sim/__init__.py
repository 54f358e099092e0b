"""The simulated arm of the harness: swarm, runner, shrinker, batches of seeds.

`draw` makes a plan from a seed, `play` runs it, `runner` judges the run, `shrink` reduces a failing
plan, `story` describes a run, `batch` runs many seeds, `reproduce` looks for the violation of a run
on real nodes.
"""
