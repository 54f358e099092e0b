"""Jepsen's own check of whole histories: set-full.

It looks for what Jepsen's checker of this name looks for, in the same shape of values, and counts
it under the same names. Failed operations did not happen, indeterminate ones may or may not have
happened, at any time after they were invoked.
"""

from checkers.jepsen import set_full

__all__ = ["set_full"]
