"""Packages beside Kraftprobe, as they are in the repository: nothing is installed or fetched."""

import sys
from pathlib import Path

PACKAGES = Path(__file__).parents[2] / "packages"
sys.path += [str(folder) for folder in sorted(PACKAGES.glob("kraftprobe-*"))]
