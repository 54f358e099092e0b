"""Errors of the simulated arm that are a user's business: one line each."""


class ScenarioError(ValueError):
    """This is no scenario that can be run; one line says why."""


class BatchError(ValueError):
    """The folder cannot take this batch; one line."""
