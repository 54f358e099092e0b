"""Models and histories of the tests of `porcupine_py`; they import nothing else of this project."""

from porcupine_py import PENDING, Model, Operation, partition_by, partition_event_by

READ = None
"""The input of a read; of a write it is the value."""


def register_step(state, value, output):
    if value is READ:
        return (output is PENDING or output == state), state
    return True, value


def describe_register(value, output):
    return f"read() -> {output}" if value is READ else f"write({value})"


REGISTER = Model(init=lambda: 0, step=register_step, describe_operation=describe_register)
REGISTER_READS = Model(init=lambda: 0, step=register_step, read_only=lambda value: value is READ)


def write(value, call, return_, client=0):
    return Operation(client, value, call, None, return_)


def read(value, call, return_, client=0):
    return Operation(client, READ, call, value, return_)


def cas_step(state, given, output):
    """A register with compare-and-set as Jepsen's etcd test knows it; output (kind, value)."""
    f, value = given
    if f == "read":
        return (output is PENDING or output[0] == "fail" or output[1] == state), state
    if f == "write":
        return True, value
    expected, new = value
    if output is PENDING or output[0] == "ok":
        return state == expected, new
    return state != expected, state


CAS_REGISTER = Model(init=lambda: None, step=cas_step)


def key_value_step(state, given, output):
    f, _, value = given
    if f == "get":
        return output[1] == state, state
    return True, value if f == "put" else state + value


def key_of(given):
    return given[1]


KEY_VALUE = Model(
    init=str,
    step=key_value_step,
    partition=partition_by(key_of),
    partition_event=partition_event_by(key_of),
)
