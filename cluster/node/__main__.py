"""`python -m cluster.node --config FILE`: see `cluster.node.process`."""

from cluster.node.process import main

main()
