"""Rows of bytes as one array, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]


def stacked(rows: Sequence[bytes], width: int) -> Octets:
    """Rows of one length as an array, (n, width)."""
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, width)


def row_bytes(octets: Octets) -> list[bytes]:
    """The rows of an array, (n, width)."""
    rows: list[bytes] = np.ascontiguousarray(octets).view(f"V{octets.shape[1]}")[:, 0].tolist()
    return rows
