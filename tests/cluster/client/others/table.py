"""The Markdown table of operations and clients, ours beside Kafka."""

from collections.abc import Iterable
from typing import Final

from tests.cluster.client.others.outcomes import ASIDES, Key, Outcome, by_key

TOOLS: Final = "Kafka's tools"
NOT_OFFERED: Final = ""
WORDS_MAX: Final = 60


def render(kafkas: Iterable[Outcome], ours: Iterable[Outcome]) -> str:
    """Render both tables, of the clients and of Kafka's tools."""
    theirs, mine = by_key(kafkas), by_key(ours)
    named = {each.key[0]: each.client for each in theirs.values()}
    clients = [client for client in named if client != TOOLS]
    lines = ["### Clients", ""]
    lines += _row("operation", *(named[client] for client in clients))
    lines += _row("---", *("---" for _ in clients))
    for operation in _operations(theirs, clients):
        cells = [_cell(theirs, mine, (client, operation)) for client in clients]
        lines += _row(operation, *cells)
    if TOOLS in named:
        lines += ["", f"### {named[TOOLS]}", ""]
        lines += _row("command", "ours beside Kafka") + _row("---", "---")
        for operation in _operations(theirs, [TOOLS]):
            lines += _row(operation, _cell(theirs, mine, (TOOLS, operation)))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def _operations(outcomes: dict[Key, Outcome], clients: list[str]) -> list[str]:
    """List the operations so that each client's follow each other as in its program."""
    found: list[str] = []
    for client in clients:
        place = 0
        for name, operation in outcomes:
            if name != client:
                continue
            if operation in found:
                place = found.index(operation) + 1
            else:
                found.insert(place, operation)
                place += 1
    return found


def _cell(theirs: dict[Key, Outcome], mine: dict[Key, Outcome], key: Key) -> str:
    """Say what the operation does at both."""
    kafkas, own = theirs.get(key), mine.get(key)
    if kafkas is None:
        return NOT_OFFERED
    if own is None:
        return "not run"
    if kafkas.works and own.works and kafkas.seen == own.seen:
        return "works"
    if kafkas.works and key[1] in ASIDES:
        return "works" if own.works else f"aside: {ASIDES[key[1]]}"
    if not kafkas.works and not own.works:
        return f"neither: {_words(kafkas.seen)}"
    if kafkas.works:
        return f"**ours: {_words(own.seen)}**"
    return f"ours alone; Kafka: {_words(kafkas.seen)}"


def _words(seen: str) -> str:
    """Shorten what was seen to what fits into a cell."""
    plain = " ".join(seen.split()).replace("|", "\\|").replace("<", "&lt;")
    return plain if len(plain) <= WORDS_MAX else plain[:WORDS_MAX].rstrip() + " ..."
