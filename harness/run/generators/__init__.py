"""Generators of operations and their combinators; see `harness.run.generators.base`."""
