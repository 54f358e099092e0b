"""Requests as bytes, and what may happen to bytes."""

from hypothesis import strategies as st

EXTREMES = [
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0" * 4,
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff",
]


@st.composite
def mutations(draw, frame: bytes, most: int = 3) -> bytes:
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(frame)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "extreme", "repeat"]))
        if kind == "flip" and at < len(frame):
            frame = frame[:at] + bytes([frame[at] ^ draw(st.integers(1, 255))]) + frame[at + 1 :]
        elif kind == "cut":
            frame = frame[:at]
        elif kind == "insert":
            frame = frame[:at] + draw(st.binary(min_size=1, max_size=8)) + frame[at:]
        elif kind == "extreme":
            value = draw(st.sampled_from(EXTREMES))
            frame = frame[:at] + value + frame[at + len(value) :]
        else:
            frame = frame[:at] + frame[at:] * 2
    return frame
