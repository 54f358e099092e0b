"""Jepsen's own checks of whole histories: bank, long fork, set-full and total queue.

They look for what Jepsen's checkers of these names look for, in the same shapes of values, and
count it under the same names. Where those are content with less than follows from a history, or
call wrong what a correct system can do, each file says what is done instead, and why. Failed
operations did not happen, indeterminate ones may or may not have happened, at any time after they
were invoked.
"""

from checkers.jepsen import bank, long_fork, set_full, total_queue

__all__ = ["bank", "long_fork", "set_full", "total_queue"]
