"""Generators, interpreter, schedule, campaign and the command line."""

import sys

if not __debug__:  # by -O or PYTHONOPTIMIZE; a broken invariant would be neither seen nor stop it
    sys.stderr.write("Kraftprobe's invariants are assertions: run without -O and PYTHONOPTIMIZE\n")
    raise SystemExit(2)


def _report_interrupt(kind: type[BaseException], error: BaseException, trace: object) -> None:
    """Report a Ctrl-C that came while the program was still being imported in one line."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("kraftprobe: interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]


if sys.argv[0].endswith("kraftprobe"):
    sys.excepthook = _report_interrupt
