"""What all tests rely on, however they were started."""

import signal

from hypothesis import settings

# What an example takes says nothing on a machine that does other things, too.
settings.register_profile("kraftprobe", deadline=None)
settings.load_profile("kraftprobe")

# A shell lets what it starts in the background ignore Ctrl-C, and whoever that starts inherits it:
# the processes that tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
