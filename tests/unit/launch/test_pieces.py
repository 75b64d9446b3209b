"""Pieces of a parcel: hashed with its files in one pass, and verified in order by those who receive them."""

from __future__ import annotations

import hashlib
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from railbed.launch.files import partial as module
from railbed.launch.files.partial import PieceHasher, Pieces, PieceVerifier

LENGTH = 10
"""Of a piece here, so that a few bytes are many pieces."""
CONTENTS = st.lists(st.binary(max_size=35), max_size=6)
"""The contents of the files of a parcel: none, empty ones, several in a piece, and one over several pieces."""


def hashed(contents: list[bytes], step: int) -> tuple[Pieces, list[str]]:
    """Return the pieces of files and the hashes of the files, with so many bytes added at a time."""
    hasher, digests = PieceHasher(), []
    for content in contents:
        for at in range(0, len(content), step):
            hasher.update(content[at : at + step])
        digests.append(hasher.end_file())
    files = tuple((str(number), len(content)) for number, content in enumerate(contents))
    return Pieces(files, hasher.finish()), digests


def cut(contents: list[bytes]) -> list[bytes]:
    joined = b"".join(contents)
    return [joined[at : at + LENGTH] for at in range(0, len(joined), LENGTH)]


@given(contents=CONTENTS, step=st.integers(1, 40))
@mock.patch.object(module, "PIECE_BYTES", LENGTH)
def test_one_pass_gives_the_hashes_of_files_and_of_pieces(contents: list[bytes], step: int) -> None:
    pieces, digests = hashed(contents, step)
    assert digests == [hashlib.sha256(content).hexdigest() for content in contents]
    verifier = PieceVerifier(pieces)
    assert [verifier.add(piece) for piece in cut(contents)] == [True] * pieces.count
    assert verifier.verified == pieces.count == len(cut(contents))


@given(contents=CONTENTS.filter(any), data=st.data())
@mock.patch.object(module, "PIECE_BYTES", LENGTH)
def test_a_damaged_piece_is_refused_and_can_follow_intact(contents: list[bytes], data: st.DataObject) -> None:
    pieces, _ = hashed(contents, LENGTH)
    intact = cut(contents)
    index = data.draw(st.integers(0, len(intact) - 1))
    at = data.draw(st.integers(0, len(intact[index]) - 1))
    damaged = bytearray(intact[index])
    damaged[at] ^= data.draw(st.integers(1, 255))
    verifier = PieceVerifier(pieces)
    assert all(verifier.add(piece) for piece in intact[:index])
    for wrong in (damaged, intact[index][:-1], intact[index] + b"\0", b""):
        assert not verifier.add(wrong)
    assert all(verifier.add(piece) for piece in intact[index:])


@mock.patch.object(module, "PIECE_BYTES", LENGTH)
def test_pieces_in_another_order_are_refused() -> None:
    first, second = bytes(LENGTH), bytes([1] * LENGTH)
    pieces, _ = hashed([first + second], LENGTH)
    verifier = PieceVerifier(pieces)
    assert [verifier.add(piece) for piece in (second, first, first, second)] == [False, True, False, True]


@mock.patch.object(module, "PIECE_BYTES", LENGTH)
def test_the_same_bytes_in_other_files_are_other_pieces() -> None:
    pieces, _ = hashed([b"aaa", b"bbb"], LENGTH)
    assert not PieceVerifier(Pieces((("0", 2), ("1", 4)), pieces.sums)).add(b"aaabbb")
