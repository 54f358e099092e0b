"""What tests do over ssh, run as a script in the hub's namespace: SCENARIO INVENTORY."""

import asyncio
import sys
import tempfile
from pathlib import Path

from cluster.backends.base import BackendError
from cluster.backends.ssh.inventory import read_inventory
from cluster.backends.ssh.ssh_hosts import SshProvider

NODES = ("n1", "n2", "n3")


async def lost_and_found(provider):
    """The caller ends all connections to n1 when it reads "running", and says so by a line."""
    hosts = await provider.create(NODES)
    folder = hosts["n1"].folder
    script = (
        f"echo once >> {folder}.count; until [ -e {folder}.cut ]; do sleep 0.1; done; echo done"
    )
    process = await provider.start("n1", ("sleep", "600"), {}, "stdout.log")
    running = asyncio.ensure_future(hosts["n1"].run(("sh", "-c", script), timeout_s=600))
    while (await hosts["n1"].run(("test", "-e", f"{folder}.count"))).exit_code:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    print("running", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await hosts["n1"].run(("touch", f"{folder}.cut"), timeout_s=600)
    done = await running
    counted = await hosts["n1"].run(("cat", f"{folder}.count"))
    session = provider._sessions["n1"]
    print(done.stdout.decode().strip(), counted.stdout.decode().split(), session.reconnects)
    print(await process.state(), flush=True)
    await process.send(9)
    print(await process.wait())


async def wrapped(provider):
    host = (await provider.create(("n1",)))["n1"]
    command = ("sh", "-c", "sh -c 'echo $$ > pid; exec sleep 600' & wait")
    look = ("sh", "-c", f"grep '^State:.[RSDT]' /proc/$(cat {host.folder}/pid)/status")
    process = await provider.start("n1", command, {}, "stdout.log")
    while (await host.run(look)).exit_code:  # noqa: ASYNC110  (another process writes it)
        await asyncio.sleep(0.02)
    await process.send(9)
    print(await process.wait(), (await host.run(look)).stdout)
    process = await provider.start(
        "n1", ("sh", "-c", "sleep 600 & echo $! > pid"), {}, "stdout.log"
    )
    print(await process.wait(), (await host.run(look)).stdout)


async def own_address(provider):
    hosts = await provider.create(NODES)
    for script in ("drop 10.0.0.254", "drop { 10.0.0.254, 10.0.0.2 }"):
        try:
            await hosts["n1"].run(("nft", "-f", "-"), stdin=script.encode())
        except BackendError as error:
            print(error)
    print((await hosts["n1"].run(("nft", "add", "table", "inet", "x"))).exit_code)
    await hosts["n1"].run(("nft", "delete", "table", "inet", "x"))


async def files(provider):
    hosts = await provider.create(("n1",))
    await provider.put("n1", {"a/b.txt": b"\x00\xff", "c": b""})
    for outside in ("../../../../etc/kraftprobe", "/etc/kraftprobe", "../n2/c"):
        try:
            await provider.put("n1", {outside: b"bad"})
        except BackendError as error:
            print("refused", error)
    with tempfile.TemporaryDirectory() as folder:
        await provider.fetch("n1", Path(folder))
        print(names(folder))
        print((Path(folder) / "a/b.txt").read_bytes())
    print((await hosts["n1"].run(("sh", "-c", "exit 7"))).exit_code)
    try:
        await hosts["n1"].run(("sleep", "9"), timeout_s=0.2)
    except BackendError as error:
        print(error)


def names(folder):
    return sorted(path.name for path in Path(folder).rglob("*"))


async def hold(provider):
    await provider.create(NODES)
    await provider.start("n1", ("sleep", "600"), {}, "stdout.log")
    print("held", flush=True)
    await asyncio.sleep(600)


async def main(scenario, inventory):
    with tempfile.TemporaryDirectory() as folder:
        provider = SshProvider(read_inventory(Path(inventory)), Path(folder), f"trial-{scenario}")
        try:
            await globals()[scenario](provider)
        except BackendError as error:
            print(f"BackendError: {error}")
        finally:
            await provider.tear_down()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
