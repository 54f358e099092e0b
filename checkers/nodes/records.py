"""Records: what was acknowledged is in the logs, and what nodes serve is what the logs add up to.

Three witnesses of one run are compared, each of which could be false or altered alike on all nodes:
the journal (what clients were answered), the nodes' logs, and the final reads.

- *Answers and logs.* Every acknowledged operation left its record in the newest of the final logs,
  and every committed record of a client's key is of an operation that may have had an effect
  (`checkers.evidence.effects`). No level of a feature goes back that nobody asked for
  (`level-went-back`).
- *Logs and final reads.* A node's final read shows each cell and topic as the log has it at some
  offset from the sentinel's on (`harness.run.final_reads`): what a node serves is the replay of the
  committed log (KIP-631). Cells are those of names that begin with `kraftprobe.`.
- *Answers and traces*, of systems that trace their answers: see `checkers.nodes.answered`.
- *Log and time*: see `checkers.evidence.order`.

Needs: logs that reach back to offset 0, or to a snapshot that is there. Where only the last values
are kept, such a snapshot shows no lost operation, and the result says so. What it cannot see:
effects that leave no record; operations of a workload without a rule; a change alike in journal,
logs, traces and final reads. A record of an operation that the journal
of a prefix lacks is a doubt (`evidence.extent`). Complexity: O(records + operations + keys).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import numpy as np

from checkers.evidence import FINAL_READS, Evidence, FinalRead, LogRecord, Snapshot
from checkers.evidence.effects import (
    CELLS,
    LOST,
    RULES,
    Places,
    audit_behind,
    audit_effects,
    cell_of,
    effects_of,
)
from checkers.evidence.evidence_result import evidence_result, without_log
from checkers.evidence.extent import Extent
from checkers.evidence.order import out_of_order
from checkers.history.recorded import columns_of, statements
from checkers.nodes.answered import TRACED, Joined, join
from checkers.nodes.in_sync import newest_records
from checkers.nodes.snapshots import Image, beginning, image_of, unknown_beginning
from checkers.nodes.upgrades import KRAFT, SETBACK, setbacks
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "records"
_SENTINEL: Final = "kraftprobe.sentinel."
_NAMED: Final = "broker:"
"""Of the configs of a final read, those that hold cells by their names."""
_ABSENT: Final = object()


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Compare journal, logs and final reads.

    Options: `workload` of the operations; `traced` as of `invariants`; `nodes` that serve final
    reads; `timeout_ms` of clients; `one_clock`, whether nodes read the harness's.
    """
    evidence, workload = run.required_evidence, str(options.get("workload"))
    traced = options.get("traced")
    missing = without_log(evidence) + _reads_gone(run)
    missing += [] if run.extent.outlived else _ends_early(evidence, traced)
    notes: list[str] = []
    anomalies: list[Anomaly] = []
    doubts: list[Anomaly] = []
    log = newest_records(evidence)
    known = beginning(evidence, log) if log else None
    if known is None:
        missing += [unknown_beginning(log)] if log else []
    else:
        found, not_known = _effects(run, workload, log, known)
        notes += not_known
        for each in (*setbacks(log, run.notes), *found):
            (anomalies if _is_sure(each, run.extent) else doubts).append(each)
        if not run.extent.outlived and not cancelled():
            base = image_of(known[0].records)
            end_offset, nodes = log[-1].offset + 1, options.get("nodes")
            anomalies += _final_reads(evidence, end_offset, base, known[1], nodes)
            anomalies += _configs(evidence, log, base)
    anomalies += _without_sentinel(run)
    answers = Joined(judged=False)
    places = _places(run, workload, log)
    if traced is None or {"ack", "read"} <= {*traced}:
        timeout_ms = options.get("timeout_ms")
        answers = join(run.operations, evidence, workload, log, run.notes, places, timeout_ms)
        missing += answers.lacking
        anomalies += answers.wrong
        if not answers.judged and options.get("one_clock") and workload in TRACED:
            missing.append("the clock that the journal and the traces have in common")
    anomalies += _against_time(run, places, answers.reads)
    if not answers.judged:
        notes.append("that answers were traced is not judged: no events, or no clock in common")
    looked_at = len(log)
    good = f"{looked_at} records, the answers and {len(evidence.final_reads)} final reads agree"
    if notes:
        good += f"; {'; '.join(notes)}"
    return evidence_result(
        NAME,
        anomalies,
        missing=missing,
        doubts=doubts,
        cancelled=cancelled(),
        exercised=True,
        good=good,
        looked_at=looked_at,
        statistics={"records": looked_at, "not_judged": notes},
    )


def _effects(
    run: RunInput,
    workload: str,
    log: Sequence[LogRecord],
    known: tuple[Snapshot, Sequence[LogRecord]],
) -> tuple[Iterable[Anomaly], list[str]]:
    """Compare operations with a log, or with what it has behind a snapshot; and what is not."""
    end = run.required_evidence.announced_end()
    if workload not in RULES:
        return (), [f"no rule says what operations of {workload} leave in a log"]
    if log[0].offset == 0:
        return audit_effects(workload, log, run.operations, end), []
    replaced = (
        [] if RULES[workload].keeps else ["what a snapshot may have replaced is not looked for"]
    )
    return audit_behind(workload, *known, run.operations, end), replaced


def _is_sure(found: Anomaly, extent: Extent) -> bool:
    """Whether nothing that the journal of a prefix lacks may explain it."""
    if found["kind"] in (LOST, SETBACK):
        return extent.finished or found.get("feature") == KRAFT
    return extent.closed


def _places(run: RunInput, workload: str, log: Sequence[LogRecord]) -> Places | None:
    """Return where operations stand in the log that have records of their own."""
    rule = RULES.get(workload)
    if rule is None or rule.places is None:
        return None
    return rule.places(effects_of(rule, log), columns_of(run.operations))


def _against_time(
    run: RunInput, places: Places | None, answered: Places | None
) -> Iterator[Anomaly]:
    """Compare the order of the log with that of invocations and answers, over all keys."""
    both = [part for part in (places, answered) if part is not None]
    if not both:
        return
    if places is not None and answered is not None:
        new = ~np.isin(answered.rows, places.rows)
        both[1] = Places(answered.rows[new], answered.first[new], answered.last[new])
    whole = Places(*(np.concatenate(columns) for columns in zip(*map(astuple, both), strict=True)))
    columns = columns_of(run.operations)
    reads = columns.f[whole.rows] == columns.function("read")
    yield from out_of_order(columns, whole, reads)


# -- logs and final reads --------------------------------------------------------------------------


def _final_reads(
    evidence: Evidence,
    end_offset: int,
    base: Image,
    log: Sequence[LogRecord],
    nodes: Sequence[str] | None,
) -> Iterator[Anomaly]:
    """Compare each final read with the log at some offset from its sentinel on.

    `log`: what follows `base`.
    """
    for node, read in sorted(evidence.final_reads.items()):
        if nodes is not None and node not in nodes:
            continue
        if read.high_watermark > end_offset:
            explanation = (
                f"{node} was read at committed offset {read.high_watermark}, but no log reaches "
                f"further than {end_offset}"
            )
            yield anomaly("read-beyond-logs", explanation, node=node)
    shown = {node: _shown_by(read) for node, read in evidence.final_reads.items()}
    states = _States(log, base)
    for node, served in sorted(shown.items()):
        begin = _sentinel_offset(log, evidence.final_reads[node])
        names = served.keys()
        possible = states.since(begin)
        for name in sorted({*names, *(n for n in possible if n[0] == "topic")}):
            allowed = possible.get(name, [_ABSENT])
            found = served.get(name, _ABSENT)
            if found not in allowed and not (found is _ABSENT and name[1].startswith("__")):
                said = (
                    f"{node} served {name[0]} {name[1]!r} as {_text(found)} in the "
                    f"end, though by the logs it was {_text(allowed[-1])}"
                )
                yield anomaly("read-differs", said, node=node, key=name[1])


def changed_since(evidence: Evidence, read: FinalRead) -> frozenset[str]:
    """Name the cells and topics that the log changes behind the sentinel that a read shows.

    A request that its client has given up may come so late.
    """
    log = newest_records(evidence)
    known = beginning(evidence, log) if log else None
    if known is None:
        return frozenset()
    states = _States(known[1], image_of(known[0].records))
    since = states.since(_sentinel_offset(known[1], read))
    return frozenset(name for (_, name), found in since.items() if len({*found}) > 1)


def _reads_gone(run: RunInput) -> list[str]:
    """Name the nodes that were read in the end, by the journal, and of which no read is there."""
    notes = statements(run.notes, FINAL_READS)
    read = {str(n) for note in notes for n in note.value.get("read") or ()}
    lost = read - run.required_evidence.final_reads.keys()
    return [f"{node} (final read)" for node in sorted(lost)]


def _ends_early(evidence: Evidence, traced: Sequence[str] | None) -> list[str]:
    """Name nodes that served more than their traces say that they knew as committed."""
    marks = {node: evidence.announced_end([node]) for node in evidence.traces}
    return [
        f"{node} (the end of its trace: it knew {marks[node]}, and served {read.high_watermark})"
        for node, read in sorted(evidence.final_reads.items())
        if node in marks and read.high_watermark > marks[node]
        if traced is None or "hw" in traced
    ]


def _without_sentinel(run: RunInput) -> Iterator[Anomaly]:
    """Find final reads without the sentinel: the harness takes a read that shows it, or none."""
    final_reads = run.required_evidence.final_reads
    for note in statements(run.notes, FINAL_READS):
        sentinel = note.value.get("sentinel")
        for node in sorted({str(n) for n in note.value.get("read") or ()} & {*final_reads}):
            if sentinel not in final_reads[node].configs.get(_NAMED, {}):
                explanation = f"the final read of {node} does not show {sentinel!r}, written before"
                yield anomaly("sentinel-missing", explanation, node=node)


def _configs(evidence: Evidence, log: Sequence[LogRecord], base: Image) -> Iterator[Anomaly]:
    """Find configurations that a final read shows and no log holds, nor what is below it.

    A final read leaves out what was not set in the metadata, so all that it shows has its record;
    cells are called by their names there, and judged by `_final_reads`. Kafka serves what it made
    of a text: without blanks, and in lower case.
    """
    held = {
        (
            value.get("resourceType"),
            value.get("resourceName"),
            value.get("name"),
            _plain(value.get("value")),
        )
        for value in (
            *(value for key, value in base.keys.items() if key[0] == "config"),
            *(record.value for record in log if record.kind == "ConfigRecord"),
        )
    }
    for node, read in sorted(evidence.final_reads.items()):
        for resource, configs in sorted(read.configs.items()):
            kind, _, name = resource.partition(":")
            for config, text in sorted(configs.items()):
                shown = (_RESOURCES.get(kind), name, config, _plain(text))
                if not config.startswith(CELLS) and shown not in held:
                    said = (
                        f"{node} served {config!r} of {resource!r} as "
                        f"{text!r:.80} in the end, which no log holds"
                    )
                    yield anomaly("read-differs", said, node=node, key=f"{resource}.{config}")


_RESOURCES: Final = {"topic": 2, "broker": 4, "client-metrics": 16}


def _plain(text: object) -> str:
    return "".join(str(text).split()).lower()


def _text(state: object) -> str:
    return "not there" if state is _ABSENT else f"{state!r:.80}"


_Name = tuple[str, str]
"""("cell" or "topic", its name)"""


def _shown_by(read: FinalRead) -> dict[_Name, object]:
    cells = {n: v for n, v in read.configs.get(_NAMED, {}).items() if n.startswith(CELLS)}
    return {("cell", name): value for name, value in cells.items()} | {
        ("topic", name): (topic.get("id"), topic.get("partitions"))
        for name, topic in read.topics.items()
    }


def _sentinel_offset(log: Sequence[LogRecord], read: FinalRead) -> int:
    """Return where the last sentinel stands that a read shows; it had replayed that."""
    cells = read.configs.get(_NAMED, {})
    found = read.high_watermark
    for record in reversed(log):
        cell = cell_of(record.value) if record.kind == "ConfigRecord" else None
        if cell is not None and cell[0].startswith(_SENTINEL) and cell[0] in cells:
            return min(found, record.offset + 1)
    return found


class _States:
    """Which states cells and topics had from an offset on."""

    def __init__(self, log: Sequence[LogRecord], base: Image) -> None:
        self._log = log
        self._base = base
        self._known: dict[int, dict[_Name, list[object]]] = {}

    def since(self, offset: int) -> dict[_Name, list[object]]:
        """Return all states of each name at `offset` and above."""
        if offset not in self._known:
            image = Image()
            image.keys.update(self._base.keys)
            rest = []
            for record in self._log:
                if record.offset < offset:
                    image.add(record.kind, record.value)
                else:
                    rest.append(record)
            found = {name: [state] for name, state in _states_of(image).items()}
            for record in rest:
                image.add(record.kind, record.value)
                if record.kind in _CHANGING:
                    now = _states_of(image)
                    for name in found.keys() | now.keys():
                        found.setdefault(name, [_ABSENT]).append(now.get(name, _ABSENT))
            self._known[offset] = found
        return self._known[offset]


_CHANGING: Final = frozenset(
    {"ConfigRecord", "TopicRecord", "RemoveTopicRecord", "PartitionRecord", "EndTransactionRecord"}
)


def _states_of(image: Image) -> dict[_Name, object]:
    topics = {
        key[1]: str(value.get("name")) for key, value in image.keys.items() if key[0] == "topic"
    }
    counts = Counter(topics.get(key[1]) for key in image.keys if key[0] == "partition")
    found: dict[_Name, object] = {
        ("topic", name): (topic_id, counts[name]) for topic_id, name in topics.items()
    }
    for key, value in image.keys.items():
        cell = cell_of(value) if key[0] == "config" else None
        if cell is not None:
            found["cell", cell[0]] = cell[1]
    return found
