"""What must hold in a KRaft quorum: each invariant once, as a fold over the nodes' trace events.

A simulated world feeds them live, with access to logs and disks (`Sight`). For a stored run of any
backend the check `invariants` feeds them the traces, logs and quorum-state files that the nodes
left. Each names the events that it reads, and its source.

| name | says | order | stored |
|---|---|---|---|
| monotonic-epoch | no node's epoch decreases | node | yes |
| election-safety | one leader an epoch, whichever node believes in it | none | yes |
| one-vote | a voter votes for one candidate an epoch, over its restarts | node | yes |
| stable-leadership | no voter that follows a leader, and has records of it, grants a PreVote | node | yes |
| elected-by-majority | a node leads with the votes of a majority of its voters | cause | yes |
| durable-vote | a vote, an epoch, a leader is on the disk before another node hears of it | node | no: disk |
| no-contradiction | no node is sent what contradicts what it knows | none | yes |
| one-voter-change | voter sets that follow each other differ by one voter | node | yes |
| change-after-commit | voters change once the epoch's start and the last change are committed | node | yes |
| committed-voters | no node goes back behind voters that it knows to be committed | node | yes |
| leads-as-voter | a leader whose removal is committed leads no longer | node | yes |
| recovery | what was fsynced is there again after a restart | node | yes |
| log-matching | (offset, epoch) stands for one batch on all nodes at all times | node | yes |
| committed-prefix | what lies below any high watermark never changes, and is never taken back | node | yes |
| committed-truncated | no replica gives up a committed record that it held | node | yes |
| majority-durable | what commits is on the disks of a majority | cause | yes |
| majority-counted | a high watermark is at most the offset that the leader counted on a majority | none | yes |
| monotonic-high-watermark | the high watermarks of leaders never decrease | node | yes |
| leader-completeness | a new leader holds all that was committed before its epoch | none | yes |
| durable-fetch | a voter fetches no further than it has fsynced | none | yes |
| snapshot-committed | a snapshot ends where a committed batch of its epoch does | cause | yes |
| snapshot-durable | a snapshot that is announced is on the disk, whole, with the voters | node | no: disk |
| snapshot-agreement | snapshots of one id have equal bytes on all nodes | node | no: disk |
| own-commit | a leader commits by counting what it appended in its epoch, and nothing before | node | yes |
| claim-after-replay | a controller claims only past its epoch's start | node | yes |
| ack-committed | an acknowledged write is below the high watermark of the node that answers | node | yes |
| read-confirmed | a linearizable read is answered after leadership was confirmed | none | yes |

order, the order of events that the invariant needs: `none`, any, as it compares two facts that
contradict each other; `node`, each node's own; `cause`, the events that allowed an event come before
it. No invariant needs to know which of two events of different nodes came first. stored: whether it
can be judged from what nodes leave, or needs the bytes on a disk at the moment of an event.

Simulated worlds alone are judged by the others, on what no trace holds; they say by what:

| file | invariants of |
|---|---|
| `elections.py`, `voters.py`, `logs.py`, `commits.py`, `snapshots.py` | the quorum: the table, and more on what nodes have done by then |
| `leading.py` | leaders, on the messages that arrive |
| `standing.py` | when replicas stand, what they ask of others, and their votes |
| `brokers.py` | brokers and partitions, on the metadata images of nodes |
| `sessions.py` | brokers' sessions, on the requests that arrive |
| `replicas.py`, `partitions.py` | high watermarks, ISRs and what brokers know of replicas |
| `upkeep.py` | what a node does in its own time, on its disks |
| `answers.py`, `descriptions.py`, `producers.py` | what a node answers to administrators and producers |

| file | what |
|---|---|
| `sight.py` | what is known of nodes: the fields of events, and logs and disks where they can be read |
| `quorum.py`, `electorate.py` | what all share: copies of logs, votes, voters, commits |
| `fold.py` | what an invariant is |
| `watcher.py` | all of them, and feeds each event to them |
| `traces.py` | what traces, logs and files of a stored run owe each other; for stored runs alone |
| `merge.py`, `stored.py` | one order of stored traces; the check of a stored run |
"""

# ruff: noqa: E501  (the table)
