"""A netns cluster of fake nodes: RUN_FOLDER RUN_ID hold|check.

hold: bring it up, print a line, and wait to be killed. check: cut a link one way, print what is measured
as JSON, and end.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from fake_system import FakeSystem
from waiting import TIMEOUT_S

from cluster.backends.hosted import HostedBackend
from cluster.backends.netns.netns_hosts import NetnsProvider, may_make_namespaces


async def main() -> None:
    folder, run_id, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    backend = HostedBackend(NetnsProvider(folder, run_id), FakeSystem(), folder, 2, run_id)
    try:
        await backend.up()
        if what == "hold":
            await backend.pause("n2")
            sys.stdout.write("up\n")
            sys.stdout.flush()
            await asyncio.sleep(600)
        await backend.cut_links([("n1", "n2")])
        measures = {
            "cut": await backend.measure_link(("n1", "n2"), 0.2),
            "back": await backend.measure_link(("n2", "n1"), TIMEOUT_S),
        }
    finally:
        await backend.down()
    measured = {name: asdict(measure) for name, measure in measures.items()}
    sys.stdout.write(json.dumps({"privileged": may_make_namespaces(), **measured}))


asyncio.run(main())
