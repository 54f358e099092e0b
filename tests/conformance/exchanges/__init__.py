"""The same raw requests to a controller of Apache Kafka and to one of ours, answers field by field.

`cases.py` says which situations there are and what is asked in each; `nodes.py` starts a node of
either kind in a situation; `wire.py` asks. What Kafka answered is kept in `tests/data/kafka`, by
`python -m tests.conformance.exchanges VERSION`.
"""
