"""Tests that are coroutines."""

import asyncio
import functools
import inspect


def play(runner, *options, given=None, **settings):
    """Have a test's coroutine run by `runner`, the name of a fixture or a function.

    The runner hands the coroutine its positional arguments; keyword-only ones are fixtures. `given`
    names a fixture that the runner takes behind the coroutine.
    """

    def decorate(test):
        keywords = inspect.Parameter.KEYWORD_ONLY
        own = [p for p in inspect.signature(test).parameters.values() if p.kind is keywords]
        more = {name for name in (runner, given) if isinstance(name, str)} - {p.name for p in own}
        fixtures = [*own, *(inspect.Parameter(name, keywords) for name in sorted(more))]

        @functools.wraps(test)
        def run_test(**values):
            run = values[runner] if isinstance(runner, str) else runner
            body = functools.partial(test, **{p.name: values[p.name] for p in own})
            handed = () if given is None else (values[given],)
            run(body() if run is asyncio.run else body, *handed, *options, **settings)

        run_test.__signature__ = inspect.Signature(fixtures)
        return run_test

    return decorate
