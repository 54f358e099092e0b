"""The KRaft node: log, consensus, controller, broker, protocol, security and what runs them."""

import sys
from importlib import import_module

if "hypothesis" not in sys.modules:
    # Where Hypothesis is installed kio imports it to register strategies that nobody here uses: two
    # thirds of the time that kio takes, and a folder .hypothesis wherever a node is started.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # makes its import fail
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
