"""Our verdicts beside those of Knossos, Elle and Jepsen, on their own public cases.

    python -m tests.foreign FOLDER

FOLDER holds clones of jepsen-io/knossos, jepsen-io/elle and jepsen-io/jepsen, under these names or
as `knossos`, `elle` and `jepsen`; their licences are theirs, so nothing of them is kept here. What
is compared: every history file of Knossos' `data/` (its folder says the verdict), and the histories
in the unit tests of Elle and of Jepsen's checkers, with the verdict that each test expects.
"""
