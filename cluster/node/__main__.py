"""`python -m cluster.node --config FILE`: see `cluster.node.process`."""

import gc

gc.disable()  # a tenth of the time of the imports, whose objects stay

from cluster.node.process import main  # noqa: E402

gc.freeze()
gc.enable()
main()
