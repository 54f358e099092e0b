"""Cuts by packet filters: what is known of them when a host has lost its rules."""

import asyncio
import json
from types import SimpleNamespace

from cluster.backends.links.rules import LinkRules

CUT = ("n1", "n3")


class Filter:
    """The packet filter of a host, which counts no bytes."""

    def __init__(self, number):
        self.address, self.has_table = f"10.0.0.{number}", False

    async def run(self, command, stdin=b""):
        is_whole = b"chain" in stdin
        self.has_table = self.has_table or is_whole
        counted = [{"elem": {"val": f"10.0.0.{n}", "counter": {"bytes": 0}}} for n in (1, 2, 3)]
        listed = json.dumps({"nftables": [{"set": {"elem": counted}}]}).encode()
        code = 0 if self.has_table else 1
        return SimpleNamespace(exit_code=code, stdout=listed, complaint=lambda _: "no table")


def passed(*acts):
    """Cut a link, let the host lose its rules, act; return what is known to have passed since."""

    async def main():
        hosts = {f"n{number}": Filter(number) for number in (1, 2, 3)}
        rules = LinkRules(hosts, "run")
        await rules.install()
        await rules.cut([CUT])
        assert await rules.bytes_since_cut(CUT) == 0
        hosts["n3"].has_table = False
        for act in acts:
            await act(rules)
        return await rules.bytes_since_cut(CUT)

    return asyncio.run(main())


def test_of_rules_that_were_gone_and_are_written_anew_nobody_knows_what_passed():
    assert passed(lambda rules: rules.ensure("n3")) is None
    assert passed(lambda rules: rules.cut([("n2", "n3")])) is None


def test_a_cut_counts_anew_once_it_is_made_again_or_its_host_came_back():
    def ensure(rules):
        return rules.ensure("n3")

    def restore(rules):
        return rules.restore([CUT])

    assert passed(ensure, restore, lambda rules: rules.cut([CUT])) == 0
    assert passed(lambda rules: rules.reapply("n3"), ensure) == 0
