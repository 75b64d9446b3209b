"""What a verb is doing, as an event: every verb reports progress in this form."""

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
    """Return the event for the start of an activity or, if the message is the same as before, for its progress.

    `usual` is the number of seconds this activity usually takes, `left` the estimate for the verb as a whole.
    `waiting` lists what has not answered yet; a later event with such a subject removes it from the list.
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
