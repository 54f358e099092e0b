"""Generators, interpreter, schedule, campaign and the command line."""

import resource
import sys

LEAST_MEMORY_MIB = 512
"""Address space below which libraries end the process themselves, with exit codes of their own."""

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
    _memory = resource.getrlimit(resource.RLIMIT_AS)[0]
    if _memory != resource.RLIM_INFINITY and _memory < LEAST_MEMORY_MIB << 20:
        sys.stderr.write(
            f"kraftprobe: a process may have {_memory >> 20} MiB of memory here (ulimit -v); "
            f"{LEAST_MEMORY_MIB} are needed at least\n"
        )
        raise SystemExit(2)
