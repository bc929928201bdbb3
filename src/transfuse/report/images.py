"""Images as PNG files, written by a few lines of our own: the colours of a map, and the preview card.

In: arrays of bytes. Out: the content of a file. No library of images is among the dependencies, and none is needed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def palette_png(indices: Bytes, palette: Sequence[str]) -> bytes:
    """An image [rows, columns] in colours of a palette (`#rrggbb`); the index after the last colour is transparent."""
    colours = b"".join(bytes.fromhex(each[1:]) for each in palette) + bytes(3)
    return _file(indices[..., None], 3, {b"PLTE": colours, b"tRNS": b"\xff" * len(palette) + b"\0"})


def colour_png(pixels: Bytes) -> bytes:
    """An image [rows, columns, 3] in red, green and blue."""
    return _file(pixels, 2, {})


def data_address(content: bytes, kind: str) -> str:
    """Content as an address that can stand in a page, of a kind like `image/png`."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _file(pixels: Bytes, kind: int, further: Mapping[bytes, bytes]) -> bytes:
    """A PNG file of 8-bit samples [rows, columns, samples]; `kind` is the standard's colour type."""
    height, width, samples = pixels.shape
    lines = pixels.reshape(height, width * samples)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), lines], 1).tobytes()  # 0 first: no filter
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0),
        **further,
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
