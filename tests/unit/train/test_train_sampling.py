"""The order of the data: every window exactly once per epoch, on any number of ranks."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.train.data.sampling import deal, key_of, permute, pieces, window_count, window_of

SHARES = st.lists(st.floats(0, 9), min_size=1, max_size=9).filter(lambda shares: sum(shares) > 0.01)


@given(st.integers(1, 700), st.integers(0, 2**70))
def test_a_permutation_has_every_position_once(size: int, key: int) -> None:
    assert sorted(permute(position, size, key) for position in range(size)) == list(range(size))


@given(st.integers(0, 2**40), st.integers(1, 60), st.integers(1, 25), SHARES)
def test_every_window_once_per_epoch_on_any_ranks(seed: int, windows: int, batch: int, shares: list[float]) -> None:
    steps = -(-2 * windows // batch)
    windows_dealt = [
        window_of(seed, step, index, global_batch=batch, windows=windows)
        for step in range(steps)
        for part in deal(batch, shares)
        for index in part
    ]
    assert sorted(windows_dealt[:windows]) == sorted(windows_dealt[windows : 2 * windows]) == list(range(windows))


@given(st.integers(0, 600), SHARES)
def test_all_is_dealt_and_everyone_gets_a_share(batch: int, shares: list[float]) -> None:
    parts = deal(batch, shares)
    assert list(chain.from_iterable(parts)) == list(range(batch))
    for part, share in zip(parts, shares, strict=True):
        assert len(part) > batch * share / sum(shares) - 1 - 1e-9
        assert share > 0 or len(part) == 0


@given(st.integers(0, 600), SHARES)
def test_everyone_gets_at_least_one_where_there_are_so_many(batch: int, shares: list[float]) -> None:
    parts = deal(batch, shares, least=1)
    assert list(chain.from_iterable(parts)) == list(range(batch))
    workers = sum(share > 0 for share in shares)
    got = sum(len(part) > 0 for part, share in zip(parts, shares, strict=True) if share > 0)
    assert got == workers or batch < workers


@given(st.integers(0, 90), st.integers(0, 200), st.integers(1, 50))
def test_pieces_are_the_part(start: int, count: int, limit: int) -> None:
    cut = pieces(range(start, start + count), limit)
    assert list(chain.from_iterable(cut)) == list(range(start, start + count))
    sizes = [len(piece) for piece in cut]
    assert all(0 < size <= limit for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_shares_that_cannot_be() -> None:
    for shares in ([], [0.0], [1.0, -1.0]):
        with pytest.raises(ValueError, match="shares"):
            deal(4, shares)


def test_examples() -> None:
    assert deal(8, [3, 1]) == (range(6), range(6, 8))
    assert deal(3, [1, 1]) == (range(2), range(2, 3))
    assert deal(10, [1, 0.19]) == (range(9), range(9, 10))
    assert deal(4, [1, 0, 1]) == (range(2), range(2, 2), range(2, 4))
    assert pieces(range(12), 5) == [range(4), range(4, 8), range(8, 12)]
    assert pieces(range(7), 4) == [range(3), range(3, 7)]
    assert (window_count(17, 16), window_count(16, 16), window_count(0, 16)) == (1, 0, 0)
    assert key_of(1, 2) != key_of(2, 1)


def test_epochs_differ_and_the_order_is_for_ever() -> None:
    first, second = ([permute(position, 20, key_of(7, epoch)) for position in range(20)] for epoch in (0, 1))
    assert first != second
    assert [window_of(7, 0, index, global_batch=8, windows=1000) for index in range(4)] == PINNED


PINNED = [28, 439, 368, 838]
