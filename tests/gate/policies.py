"""Situations of the gate with a policy: what a release asks, and runs that do or do not show it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.gate.bench import (
    Arguments,
    Bench,
    Make,
    Rows,
    edit,
    forge,
    record_pages,
    rejudge_digest,
    situations,
)

SIGNER = "release@example.org"
TRUST = f'[each]\nsigned_by = ["{SIGNER}"]\nallowed_signers = "signers"\n'
SOME = "[each]\noperations_min = 10\n"
OLD = 'builds = ["4.3.0"]'
IMAGE = "shop/node:7 sha256:" + "89524f20db6edf6f" * 4
CANARY = '[[canary]]\nmutant = "M15"\n'
CANARY_BY = CANARY + 'check = "linearizable"\n'
KINDS = """
[[require]]
campaign = "synthetic"
workload = "register"
system = "kraft"
backend = "local"
nodes = 3
faults = ["kill", "pause", "partition"]
seeds = 2
operations = 500
leader_changes = 4
"""


def asked(text: str, *kinds: str, change: Callable[[RunStore], Any] | None = None) -> Make:
    """Runs of these kinds, else a good one, and a policy; `change` is done to the first run."""

    def make(bench: Bench) -> Arguments:
        folder = bench.folder()
        stores = [bench.copy(kind, folder) for kind in kinds or ("good",)]
        if change is not None:
            change(stores[0])
        return ["--policy", policy(folder, text), *(store.folder for store in stores)]

    return make


def policy(folder: Path, text: str) -> Path:
    """Write a policy beside the runs of a folder."""
    path = folder.parent / "release.toml"
    path.write_text(f"version = 1\n{text}")
    return path


def lost_policy(content: bytes | None, name: str = "release.toml") -> Make:
    """A good run, and a policy of just these bytes; None: a pipe."""

    def make(bench: Bench) -> Arguments:
        store = bench.copy("good")
        path = store.folder.parent.parent / name
        if content is None:
            os.mkfifo(path)
        else:
            path.write_bytes(content)
        return ["--policy", path, store.folder]

    return make


def make_key(path: Path) -> None:
    """Make a private key at `path`, and its public key beside it."""
    made = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path))
    subprocess.run(made, check=True)


def trust(folder: Path, principal: str = SIGNER) -> None:
    """Make the key `release` in a folder, and a file of allowed signers that holds it."""
    make_key(folder / "release")
    key = (folder / "release.pub").read_text()
    (folder / "signers").write_text(f'{principal} namespaces="kraftprobe" {key}')


def sign(path: Path, key: Path, namespace: str = "kraftprobe") -> None:
    """Sign a file as a user does."""
    asked = ("ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", namespace, str(path))
    subprocess.run(asked, check=True, capture_output=True)


def signed(
    text: str,
    *,
    key: str = "release",
    namespace: str = "kraftprobe",
    then: Callable[[RunStore], Any] | None = None,
) -> Make:
    """A run that was signed, and a policy beside it that trusts the key `release`."""

    def make(bench: Bench) -> Arguments:
        folder = bench.folder()
        store = bench.copy("good", folder)
        keys = folder.parent
        trust(keys)
        if key != "release":
            make_key(keys / key)
        sign(store.digests_path, keys / key, namespace)
        if then is not None:
            then(store)
        return ["--policy", policy(folder, text), store.folder]

    return make


def signed_batch(then: Callable[[Path], Any] = lambda _: None) -> Make:
    """A batch of seeds that was signed, and a policy beside it that trusts the key `release`."""

    def make(bench: Bench) -> Arguments:
        folder = bench.folder()
        batch = bench.copy("batch", folder).folder
        trust(folder.parent)
        sign(batch / "digests.sha256", folder.parent / "release")
        then(batch)
        return ["--policy", policy(folder, TRUST), batch]

    return make


def against(text: str, new: tuple[str, ...], old: tuple[str, ...]) -> Make:
    """Runs beside those of a baseline in the folder `earlier`."""

    def make(bench: Bench) -> Arguments:
        folder = bench.folder()
        earlier = folder.parent / "earlier" / "synthetic"
        earlier.mkdir(parents=True)
        for kind in old:
            bench.copy(kind, earlier)
        stores = [bench.copy(kind, folder) for kind in new]
        text_ = f'[baseline]\nruns = ["earlier"]\n{text}'
        return ["--policy", policy(folder, text_), *(store.folder for store in stores)]

    return make


EARLIER = tuple(f"earlier-{n}" for n in range(5))
SAME = tuple(f"same-{n}" for n in range(5))
SLOWER = tuple(f"slower-{n}" for n in range(5))
LATENCIES = 'figures = ["write_p99_ms", "read_p99_ms"]\n'


def of_build(change: Callable[[dict[str, Any]], Any]) -> Callable[[RunStore], Any]:
    """Another build: versions of a plan follow from nothing, so the chain is made anew."""

    def act(store: RunStore) -> None:
        edit(store.plan_path, lambda plan: change(plan["versions"]))
        forge(store, rejudge=True)

    return act


def torn(store: RunStore) -> None:
    """Tear the journal's last line, as a power loss does, and record what is left."""
    data = store.journal_path.read_bytes()
    store.journal_path.write_bytes(data[:-20])
    forge(store, rejudge=True)


def forged_signature(store: RunStore) -> None:
    """Let results that were never judged stand under a signature of others."""
    edit(store.results_path, lambda results: results["judging"].update(at="2026-01-01T00:00:00Z"))
    rejudge_digest(store)


def of_the_future(store: RunStore) -> None:
    edit(store.plan_path, lambda plan: plan.update(run="29991121T010203Z-seed7"))
    forge(store, rejudge=True)


def healthy_canary(store: RunStore) -> None:
    """Call a run of a good node that of a mutant."""
    edit(store.plan_path, lambda plan: plan.update(mutant="M15"))
    forge(store, rejudge=True)


def a_baseline_that_failed(bench: Bench) -> Arguments:
    return against(LATENCIES, SAME, (*EARLIER[:4], "bad"))(bench)


def unsigned_baseline(bench: Bench) -> Arguments:
    _, path, *folders = against(LATENCIES + TRUST, SAME, EARLIER)(bench)
    keys = Path(path).parent
    trust(keys)
    for folder in folders:
        sign(Path(folder, "digests.jsonl"), keys / "release")
    return ["--policy", path, *folders]


def itself_as_baseline(bench: Bench) -> Arguments:
    return against(LATENCIES, SAME, SAME)(bench)


def loosened(bench: Bench) -> Arguments:
    return [*asked(SOME, "quiet")(bench), "--allow-no-faults"]


def no_such_key(bench: Bench) -> Arguments:
    return asked(TRUST)(bench)


def no_key(bench: Bench) -> Arguments:
    folder = bench.folder()
    (folder.parent / "signers").write_text(f"{SIGNER} ssh-ed25519\n")
    return ["--policy", policy(folder, TRUST), bench.copy("good", folder).folder]


def key_of_another(bench: Bench) -> Arguments:
    folder = bench.folder()
    trust(folder.parent, "somebody@example.org")
    return ["--policy", policy(folder, TRUST), bench.copy("good", folder).folder]


def damaged_signature(store: RunStore) -> None:
    store.signature_path.write_text("-----BEGIN SSH SIGNATURE-----\n%\n")


def made_page_anew(store: RunStore) -> None:
    """Write another page and record it, as `report` does."""
    store.report_path.write_text("all well")
    record_pages(store)


def signature_of_other(bench: Bench) -> Arguments:
    arguments = signed(TRUST)(bench)
    store = RunStore(Path(arguments[-1]))
    other = bench.copy("other", store.folder.parent)
    shutil.copy(store.signature_path, other.signature_path)
    return [*arguments[:-1], other.folder]


_ROWS: Rows = {
    # What each run must be.
    "a policy that asks for nothing": (asked(""), 2),
    "a list of nobody": (asked("[each]\nsigned_by = []"), 2),
    "a list of no fault": (asked("[[require]]\nfaults = []"), 2),
    "limits that are none": (asked("[each]"), 2),
    "requirements that are none": (asked("require = []"), 2),
    "a policy that only lets pass": (asked("allow_skipped = true"), 2),
    "a policy that lost its content": (lost_policy(b""), 2),
    "a policy without a version": (lost_policy(b"[each]\noperations_min = 10\n"), 2),
    "a policy that is nothing at all": (
        lambda bench: ["--policy", "/dev/null", bench.copy("good").folder],
        2,
    ),
    "a policy that is a pipe": (lost_policy(None), 2),
    "a policy that says two things": (
        lost_policy(b'{"version": 1, "judge_again": true, "judge_again": false}', "release"),
        2,
    ),
    "the build that is asked for": (
        asked('[each]\nbuilds = ["0.1.*"]'),
        0,
        "gate open: 1 of 1 run passes",
    ),
    "a build known by its image's digest": (
        asked(
            '[each]\nbuilds = ["sha256:89524f20*"]',
            change=of_build(lambda v: v.update(kraft=f"0.1.0, image {IMAGE[:31]}", image=IMAGE)),
        ),
        0,
    ),
    "a build known by its commit": (
        asked(
            '[each]\nbuilds = ["9f3c0d1*"]',
            change=of_build(lambda v: v.update(kraft="4.3.1, commit 9f3c0d1a2b3c4d5e")),
        ),
        0,
    ),
    "a build with a bracket in its name": (
        asked(
            '[each]\nbuilds = ["4.3.1 [patched]*"]',
            change=of_build(lambda v: v.update(kraft="4.3.1 [patched], commit 9f3c0d1a2b3c4d5e")),
        ),
        0,
    ),
    "an old build": asked('[each]\nbuilds = ["0.2.*"]'),
    "a build that nobody wrote down": asked('[each]\nbuilds = ["*"]', change=of_build(dict.clear)),
    "an old run": asked("[each]\nage_max_h = 0.5"),
    "a run that is young enough": (asked("[each]\nage_max_h = 80_000"), 0, "gate open"),
    "a run of the future": asked("[each]\nage_max_h = 24", change=of_the_future),
    "a run without a date": asked("[each]\nage_max_h = 24", "other"),
    "another backend than the policy's": asked('[each]\nbackends = ["docker", "netns"]'),
    "another system": asked('[each]\nsystems = ["apache-kafka"]'),
    "another campaign": asked('[each]\ncampaigns = ["standard"]'),
    "too few operations in a run": (asked("[each]\noperations_min = 100_000"), 4),
    "too few leader changes in a run": (asked("[each]\nleader_changes_min = 9"), 4),
    "short enough unavailability and recovery": (
        asked("[each]\nunavailability_max_s = 5\nrecovery_max_s = 5"),
        0,
        "gate open",
    ),
    "too long an unavailability": (asked("[each]\nunavailability_max_s = 0.2"), 1),
    "too slow a recovery": (asked("[each]\nrecovery_max_s = 0.1"), 1),
    "two reasons at a time": asked('[each]\nbackends = ["docker"]\nleader_changes_min = 9'),
    "a vacuous run": (asked(SOME, "quiet"), 4),
    "a vacuous run that the policy allows": (asked(f"allow_no_faults = true\n{SOME}", "quiet"), 0),
    "a loosening option beside a policy": (loosened, 2),
    "a torn journal that was recorded so": asked(SOME, change=torn),
    # What must be among them.
    "all that is required": (asked(KINDS, "good", "other"), 0, "2 runs on 2 seeds, 615 operations"),
    "a seed too few": (asked(KINDS), 4),
    "a required fault that never bit": (asked('[[require]]\nfaults = ["clock-jump", "kill"]'), 4),
    "a required campaign that is not there": (asked('[[require]]\ncampaign = "standard"'), 4),
    "a required workload that is not there": (asked('[[require]]\nworkload = "append"'), 4),
    "a required backend that is not there": (asked('[[require]]\nbackend = "docker"'), 4),
    "the same run twice for two": (asked("[[require]]\nruns = 2", "good", "good-again"), 4),
    "a requirement met by a run that failed": (
        asked("[[require]]\nruns = 1", "bad"),
        1,
        "require any run: UNDER-EXERCISED: there is no such run that passes",
    ),
    "unknown, and all that is required beside it": asked(KINDS, "good", "other", "blind"),
    "seeds of a batch": (
        asked('[[require]]\nbackend = "sim"\nseeds = 3', "batch"),
        0,
        "1 run on 3 seeds",
    ),
    # Whether the alarm works.
    "a canary that rang": (
        asked(CANARY_BY, "good", "canary"),
        0,
        "canary M15: PASS: linearizable found it in synthetic/canary",
    ),
    "a canary that passed": (
        asked(CANARY, "good", "mutant"),
        3,
        "PASS, where a run of mutant M15 must FAIL",
    ),
    "a canary that is missing": (asked(CANARY), 4),
    "a canary of another mutant": (asked('[[canary]]\nmutant = "M31"', "good", "canary"), 1),
    "a canary that another check found": (
        asked(CANARY + 'check = "durability"', "good", "canary"),
        3,
        "it failed, but not by the check durability",
    ),
    "a canary in another campaign": (
        asked(CANARY + 'campaign = "quick"', "good", "canary"),
        4,
        "there is no run of mutant M15: make one by kraftprobe run --mutant M15 --campaign quick",
    ),
    "a good node that is called a canary": (asked(CANARY, "bad", change=healthy_canary), 1),
    "a canary alone": (asked(CANARY + KINDS, "canary"), 4, "there is no such run that passes"),
    "a canary of nothing": (asked(CANARY, "canary"), 4, "all of these are canaries"),
    # Whether it got worse.
    "slower within noise": (against(LATENCIES, SAME, EARLIER), 0, "not worse beyond noise"),
    "slower beyond noise": (against(LATENCIES, SLOWER, EARLIER), 1),
    "slower, and less than the policy minds": (
        against(LATENCIES + "tolerance = 9", SLOWER, EARLIER),
        0,
        "not worse beyond noise",
    ),
    "faster": (against(LATENCIES, EARLIER, SLOWER), 0, "not worse beyond noise"),
    "too few runs to compare": against(LATENCIES, SAME[:2], EARLIER[:2]),
    "a baseline that failed": a_baseline_that_failed,
    "a baseline that is not signed": (unsigned_baseline, 3, "it is not signed"),
    "runs that are their own baseline": itself_as_baseline,
    "a baseline that is not there": (against(LATENCIES, SAME[:1], ()), 2),
    "a run that nothing in the baseline is like": against(LATENCIES, ("simulated",), EARLIER),
    # Whose word it is.
    "signed with a trusted key": (signed(TRUST), 0, "gate open"),
    "unsigned": signed(TRUST, then=lambda s: s.signature_path.unlink()),
    "the wrong key": signed(TRUST, key="mine"),
    "judged again after it was signed": signed(TRUST, then=judge),
    "results that were put under a signature": signed(TRUST, then=forged_signature),
    "a signature that is a pipe": signed(
        TRUST, then=lambda s: [s.signature_path.unlink(), os.mkfifo(s.signature_path)]
    ),
    "runs of another rate than the baseline's": against(
        LATENCIES, tuple(f"busier-{n}" for n in range(5)), EARLIER
    ),
    "a signature of another run": signature_of_other,
    "a damaged signature": signed(TRUST, then=damaged_signature),
    "a signature of another namespace": signed(TRUST, namespace="file"),
    "a page that was made anew after the run was signed": signed(TRUST, then=made_page_anew),
    "a signature without an end": signed(
        TRUST, then=lambda s: s.signature_path.write_bytes(b"A" * 70_000)
    ),
    "a key that is not there": (no_such_key, 2),
    "a key that is none": (no_key, 2),
    "a key of another principal": (key_of_another, 2),
    "a principal without a file of keys": (asked(f'[each]\nsigned_by = ["{SIGNER}"]\n'), 2),
    "signed seeds": (signed_batch(), 0, "gate open"),
    "unsigned seeds": signed_batch(lambda f: (f / "digests.sha256.sig").unlink()),
    "seeds of which a file was changed after they were signed": signed_batch(
        lambda f: (f / "summary.txt").write_text("all well")
    ),
    # Policies that are none.
    "a misspelt key": (asked("[each]\nbuild = ['x']"), 2),
    "a number that is none": (asked("[each]\noperations_min = -1"), 2),
    "an unknown fault": (asked('[[require]]\nfaults = ["kil"]'), 2),
    "an unknown mutant": (asked('[[canary]]\nmutant = "M999"'), 2),
    "no TOML": (asked("each = ["), 2),
    "a policy of the future": (lost_policy(b"version = 2"), 2),
}
POLICIES = situations(_ROWS)
