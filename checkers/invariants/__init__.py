"""What must hold in a KRaft quorum: each invariant once, as a fold over the nodes' trace events.

A simulated world feeds them live, with access to logs and disks (`Sight`). For a stored run of any
backend the check `invariants` feeds them the traces, logs and quorum-state files that the nodes
left. Each class names the events that it reads, and its source.

| name | says | order | stored |
|---|---|---|---|
| monotonic-epoch | no node's epoch decreases | node | yes |
| election-safety | one leader an epoch, whichever node believes in it | none | yes |
| one-vote | a voter votes for one candidate an epoch, over its restarts | node | yes |
| pre-elected | a node stands for election with the PreVotes of a majority of its voters | cause | no: KIP-996 |
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
| own-commit | a leader notes as committed only what it appended in its epoch | node | yes |
| claim-after-replay | a controller claims only past its epoch's start | node | yes |
| ack-committed | an acknowledged write is below the high watermark of the node that answers | node | yes |
| read-confirmed | a linearizable read is answered after leadership was confirmed | none | yes |

order, the order of events that the invariant needs: `none`, any, as it compares two facts that
contradict each other; `node`, each node's own; `cause`, the events that allowed an event come before
it. No invariant needs to know which of two events of different nodes came first. stored: whether it
can be judged from what nodes leave, or needs the bytes on a disk at the moment of an event.

Of leaders, on the messages that a simulated world sees arrive (no trace holds these):

| name | says |
|---|---|
| led-alone | no leader goes on without a majority that fetches |
| leaves-leader | a voter that its leader does not answer looks for another |
| succession | a leader that has heard of a later epoch leads no longer |
| resigned-early | a leader that a majority fetches from does not resign for want of one |
| read-by-majority | a majority confirms the leadership before a linearizable read is answered |

Of voters and snapshots, on what nodes of a simulated world have done by then (no trace shows it):

| name | says |
|---|---|
| voters-known | a node goes by voters as new as are committed below what it knows to be, of its log |
| new-voter-holds-log | a replica becomes a voter once it has held all of the leader's log |
| described | a leader's answer to DescribeQuorum leaves out nobody, and no end is beyond its own |
| snapshot-made | a node snapshots its metadata when as much is new as calls for it |

Of brokers and partitions, on the metadata images of a simulated world's nodes (no trace holds these):

| name | says |
|---|---|
| valid-brokers | ISR, ELR, leaders and fencing fit each other |
| image-agreement | images at one offset hold the same |
| broker-view | what a broker was published is what its image holds |
| broker-epoch | a broker's epoch grows with each incarnation, and with nothing else |
| partition-epochs | leader and partition epochs never decrease, and a change of leader is one of both |
| bootstrap-first | what a controller commits first is what a cluster begins with |
| partitions-found | a controller finds by a broker, or by what is due, the partitions that have it |
| published-new | a node that starts publishes nothing before it has what a leader calls committed |

Of brokers' sessions, on the requests that a simulated world sees arrive (no trace holds these):

| name | says |
|---|---|
| fenced-silent | a broker is fenced when it asks for that, or was silent for its session |
| silent-fenced | a broker that was silent for twice its session is fenced |
| one-incarnation | no second incarnation of a broker is registered in the session of the first |
| unclean-ineligible | a broker that ended uncleanly is no eligible leader |
| released-in-time | a broker that shuts down ends when all others know that it leads nothing |

Of partitions' high watermarks and ISRs, on the replicas of a simulated world's nodes (no trace holds these):

| name | says |
|---|---|
| held-in-sync | each member of an ISR holds what its leader calls committed |
| enough-in-sync | no high watermark moves while the ISR is below min.insync.replicas |
| lag-allowed | no replica leaves an ISR before replica.lag.time.max.ms |
| joins-in-epoch | no replica joins an ISR before it has reached the start of its leader's epoch |
| change-awaited | a leader waits for a change of its ISR until it is answered or overtaken |
| newest-changed | no request of an earlier partition epoch changes an ISR |
| counted-by-fetch | a leader counts for a follower what that fetched from in this leadership |
| own-epoch-known | a leader's log knows the leader's epoch |
| held-committed | what an ISR that has changed holds is committed at once |
| fetch-answered | no Fetch of a follower waits when its leader has more, or has committed more |
| caught-up-first | a broker opens its logs once its metadata contain its own registration |
| mark-removed | no log directory in use has the mark of a clean shutdown |
| sequences | a producer's batches follow one another, and retries are known |
| deletes-asked | a leader deletes the records that it is asked to, and no others |
| own-topic | a replica's log is of no earlier topic of the same name |
| remembered-in-log | what a replica remembers of producers, and calls committed, is in its log |

Of what a node does in its own time, on the disks of a simulated world's nodes (no trace holds these):

| name | says |
|---|---|
| mark-checkpointed | a high watermark is in its checkpoint two intervals later |
| snapshots-cleaned | what is more than metadata.max.retention.bytes goes, and files that nobody uses |
| retention-kept | a leader deletes the segments that retention.bytes or retention.ms calls for, soon, and no others |
| move-kept | a replica that begins to move has a folder where a start finds it, and one log in the end |
| answered-in-time | a request that says for how long it may wait is answered by then |
| batches-indexed | an entry that a broker adds to an offset index points at its batch |

Of what a node answers to administrators and producers in a simulated world (no trace holds answers):

| name | says |
|---|---|
| topics-known | a controller denies no topic that it has from the request to the answer |
| feature-kept | a level that is said to be finalized is in the metadata |
| resizes-judged | a broker takes another size of a part of it where it can, and nowhere else |
| batches-taken | a leader takes a right batch, however it is compressed |
| cluster-described | DescribeCluster shows the brokers, or controllers, that the node knows |
| producer-ids-once | no two producers get one id |

| file | what |
|---|---|
| `sight.py` | what is known of nodes: the fields of events, and logs and disks where they can be read |
| `quorum.py`, `electorate.py` | what all share: copies of logs, votes, voters, commits |
| `fold.py` | what an invariant is |
| `elections.py`, `voters.py`, `logs.py`, `commits.py`, `snapshots.py`, `leading.py`, `brokers.py`, `sessions.py`, `replicas.py`, `partitions.py`, `upkeep.py`, `retention.py`, `answers.py` | the invariants |
| `traces.py` | what traces, logs and files of a stored run owe each other; for stored runs alone |
| `watcher.py` | all of the others, and feeds each event to them |
| `merge.py`, `stored.py` | one order of stored traces; the check of a stored run |
"""

# ruff: noqa: E501  (the table)
