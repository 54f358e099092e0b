"""Requests about configurations to one combined node of either kind, answers field by field.

`cases.py` says what is asked; what Kafka answered is kept in `tests/data/kafka`, by
`python -m tests.conformance.configs VERSION`.
"""
