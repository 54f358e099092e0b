"""Effect of the faults of clocks and disks, measured on this machine."""
