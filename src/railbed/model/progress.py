"""What a verb is doing right now, as an event: every verb reports its progress in this form."""

from __future__ import annotations

from collections.abc import Collection

from railbed.model.events import Progress


def progress(
    message: str,
    *,
    subject: str = "",
    detail: str = "",
    done: int | None = None,
    total: int | None = None,
    usual: float | None = None,
    left: float | None = None,
    waiting: Collection[str] = (),
) -> Progress:
    """Return the event that a new activity begins, or where it has the same message, that it has come further.

    `usual` is the number of seconds this activity usually takes, `left` the estimate for the verb as a whole.
    `waiting` names what has not answered yet: each later event with such a subject takes it off the list.
    """
    return Progress(
        subject=subject,
        message=message,
        detail=detail or None,
        done=done,
        total=total,
        usual=usual,
        left=left,
        waiting=list(waiting) or None,
    )
