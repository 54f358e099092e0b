"""Tests that are coroutines."""

import asyncio
import functools
import inspect


def play(runner, *options, **settings):
    """Have a test's coroutine run by `runner`, the name of a fixture or a function.

    The runner hands the coroutine its positional arguments; keyword-only ones are fixtures.
    """

    def decorate(test):
        keywords = inspect.Parameter.KEYWORD_ONLY
        fixtures = [p for p in inspect.signature(test).parameters.values() if p.kind is keywords]
        if isinstance(runner, str):
            fixtures.append(inspect.Parameter(runner, keywords))

        @functools.wraps(test)
        def run_test(**given):
            run = given.pop(runner) if isinstance(runner, str) else runner
            body = functools.partial(test, **given)
            run(body() if run is asyncio.run else body, *options, **settings)

        run_test.__signature__ = inspect.Signature(fixtures)
        return run_test

    return decorate
