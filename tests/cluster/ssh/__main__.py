"""`python -m tests.cluster.ssh`: a whole campaign on hosts behind real sshd, without hosts of one's own.

Builds the laboratory of the tests (a network namespace and an sshd for each host, as root), runs
`kraftprobe run --backend ssh` there, checks that nothing is left on the hosts, and takes them away.
All arguments but --hosts go to `run`; its exit code is this program's, 1 where something is left.

    python -m tests.cluster.ssh --hosts 5 --campaign standard --seed 21 --runs runs
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster.ssh.lab import PROGRAM, Lab, why_not


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=5)
    asked, rest = parser.parse_known_args()
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="kraftprobe-lab-") as folder,
        Lab(Path(folder), asked.hosts) as lab,
    ):
        words = ("run", "--backend", "ssh", "--inventory", lab.inventory(), *rest)
        done = subprocess.run(lab.inside(sys.executable, "-c", PROGRAM, *words), check=False)
        left = lab.traces()
    for trace in left:
        sys.stderr.write(f"left behind: {trace}\n")
    return done.returncode or int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
