"""Generators, interpreter, schedule, campaign and the command line."""

import sys

if not __debug__:  # by -O or PYTHONOPTIMIZE; a broken invariant would be neither seen nor stop it
    sys.stderr.write("Kraftprobe's invariants are assertions: run without -O and PYTHONOPTIMIZE\n")
    raise SystemExit(2)
