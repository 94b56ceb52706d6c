"""Logged data made ready for training: clean, in two, and unpacked where they stay on disk."""

from collections.abc import Callable

from oryx_marl.data import mapped
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen
from oryx_marl.data.sampler import check_length
from oryx_marl.data.split import Split, split
from oryx_marl.data.view import View
from oryx_marl.errors import OryxError

Report = Callable[[int, int], None]
"""`report(rows, of)`: how far data that stay on disk are unpacked."""


def prepare(
    view: View, share: float | None, length: int, drop_invalid: bool, report: Report
) -> Split[Dataset]:
    """Episodes to train on and, where a share is held out, others; all of them clean.

    Args:
        view: a Dataset, or a view that stays on disk.
        share: of the episodes that are held out (see `split`).
        length: steps of a window, of which one must fit.
        drop_invalid: leave out invalid rows instead of refusing them.
        report: is told how far it is, where it takes long.
    """
    if not drop_invalid:
        screen.require_clean(view)
    if isinstance(view, Dataset):
        parts = split(clean(view, drop_invalid), share, length)
    else:
        parts = _unpack(view, drop_invalid, share, length, report)
    check_length(parts.train.num_rows, length)
    return parts


def clean(dataset: Dataset, drop_invalid: bool) -> Dataset:
    """The dataset, without its invalid rows where that is asked for."""
    return screen.drop_invalid(dataset) if drop_invalid else dataset


def _unpack(
    view: View, drop_invalid: bool, share: float | None, length: int, report: Report
) -> Split[Dataset]:
    """Both parts as files that are mapped into memory."""
    if drop_invalid:
        raise OryxError(
            f"invalid rows of '{view.name}' cannot be left out while it stays on disk; repair it "
            "first (`oryx data check NAME --fix`), and train on the copy"
        )
    parts: Split[View] = split(view, share, length)
    mark = f"{mapped.fingerprint(view)} {share} {length}"
    of, kept = view.num_rows, parts.train.num_rows
    train = mapped.unpack(parts.train, f"{mark} train", lambda rows: report(rows, of))
    if parts.validation is None:
        return Split(train, None)
    held = mapped.unpack(
        parts.validation, f"{mark} validation", lambda rows: report(kept + rows, of)
    )
    return Split(train, held)
