"""How much a Parquet file claims to hold, from its footer alone (Thrift's compact protocol).

pyarrow can tell it too, column by column, but ends the whole process where one is damaged.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from oryx_marl import limits

MAGIC = b"PAR1"
STOP, TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
DEPTH = 64
"""Structs and lists within each other; those of Parquet have 6."""


class Claim(NamedTuple):
    """Of all columns and groups of rows together."""

    values: int
    num_bytes: int


def read_claim(path: Path) -> Claim:
    """What the footer says; a ValueError where it makes no sense."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        end = file.read()
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC or not 0 < length <= size - 12:
            raise ValueError("its footer is not where it should be")
        limits.require("its footer", length, limits.JSON_BYTES)
        file.seek(size - 8 - length)
        footer = _Compact(file.read(length))
    try:
        return footer.claim()
    except IndexError as error:
        raise ValueError("its footer ends too early") from error


class _Compact:
    """A reader of Thrift's compact protocol that knows where Parquet's sizes stand."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0
        self._values = self._bytes = 0

    def claim(self) -> Claim:
        # FileMetaData.row_groups; RowGroup.columns and total_byte_size; ColumnChunk.meta_data.
        column = {3: lambda kind: self._struct(kind, {5: self._add_values})}
        group = {
            1: lambda kind: self._list(kind, lambda each: self._struct(each, column)),
            2: self._add_bytes,
        }
        footer = {4: lambda kind: self._list(kind, lambda each: self._struct(each, group))}
        self._struct(STRUCT, footer)
        return Claim(self._values, self._bytes)

    def _add_values(self, kind: int) -> None:
        self._values += max(self._number(), 0) if kind == INT64 else self._skip(kind)

    def _add_bytes(self, kind: int) -> None:
        self._bytes += max(self._number(), 0) if kind == INT64 else self._skip(kind)

    def _struct(
        self, kind: int, known: Mapping[int, Callable[[int], None]], depth: int = 0
    ) -> None:
        """Goes through a struct; fields that are not known are passed over."""
        if kind != STRUCT:
            self._skip(kind, depth)
            return
        field = 0
        while (head := self._byte()) & 15 != STOP:
            field = field + (head >> 4) if head >> 4 else self._number()
            found = known.get(field)
            if found is None:
                self._skip(head & 15, depth + 1)
            else:
                found(head & 15)

    def _list(self, kind: int, each: Callable[[int], None]) -> None:
        if kind != LIST:
            self._skip(kind)
            return
        head = self._byte()
        for _ in range(head >> 4 if head >> 4 < 15 else self._unsigned()):
            each(head & 15)

    def _skip(self, kind: int, depth: int = 0) -> int:
        """Passes over a value of a struct, which counts as none."""
        if depth > DEPTH:
            raise ValueError("its footer is nested too deep")
        if kind in (INT16, INT32, INT64):
            self._unsigned()
        elif kind == STRUCT:
            self._struct(kind, {}, depth)
        elif kind in (LIST, SET):
            self._list(LIST, lambda inner: self._skip_element(inner, depth + 1))
        elif kind == MAP:
            self._skip_map(depth)
        elif kind in (BYTE, DOUBLE, BINARY):
            self._pass({BYTE: 1, DOUBLE: 8}.get(kind) or self._unsigned())
        elif kind not in (TRUE, FALSE):
            raise ValueError("its footer has a value of no known kind")
        return 0

    def _skip_element(self, kind: int, depth: int) -> None:
        """In lists and maps a truth value takes a byte; in a struct it is part of the head."""
        self._skip(BYTE if kind in (TRUE, FALSE) else kind, depth)

    def _skip_map(self, depth: int) -> None:
        if count := self._unsigned():
            kinds = self._byte()
            for _ in range(count):
                self._skip_element(kinds >> 4, depth + 1)
                self._skip_element(kinds & 15, depth + 1)

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _pass(self, count: int) -> None:
        self._at += count
        if self._at > len(self._content):
            raise IndexError

    def _unsigned(self) -> int:
        """Seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer has a number of no known size")

    def _number(self) -> int:
        """Zigzag: 0, -1, 1, -2, ..."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
