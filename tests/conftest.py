"""What all tests rely on, however they were started."""

import signal

# A shell lets what it starts in the background ignore Ctrl-C, and whoever that starts inherits it:
# the processes that tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
