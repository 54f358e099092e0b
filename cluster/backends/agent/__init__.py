"""The agent: the one program that a host of nodes runs for the harness, and its protocol.

`python -P -m cluster.backends.agent` needs the standard library alone, in one of these ways:

- `socket FOLDER CONTROL [SOCKETS]`: serve the inherited socket with the number CONTROL, inside of
  namespaces (netns). At its end the agent waits until nothing else runs in them. SOCKETS is the
  number of one more, over which `socket` hands out TCP sockets of this network.
- `stdio FOLDER`: serve standard input and output, until they end (docker).
- `serve FOLDER RUN GRACE_S`: become a daemon that serves FOLDER/agent.sock (ssh). Processes are its
  children, so they and their exit codes outlive a lost connection. When nobody has asked anything
  for GRACE_S seconds the harness counts as lost: the daemon ends all that belongs to the run.
- `relay FOLDER`: join standard input and output to that daemon; what ssh runs.

FOLDER is where commands run and files are; FOLDER/agent.log holds what a daemon writes.

A message is two lengths (fields, payload; 4 bytes each, big-endian), a JSON object and bytes
(`frames`). A request has `id` and `do`, the name of a verb; its answer has the same `id` and
`error`, one line, where it was refused. Requests are done beside each other. The answer to each is
kept until the requester says (`seen`) in a later request that it has come, so that a request that
is sent again after a lost connection is answered, not done again.

Verbs are the methods `do_...` of `processes` (commands, files, processes), `probes` (packets that
measure links), `shaper` (packets that wait) and `serving` (sockets).
"""
