"""The colour of a PNG, as a model that sees would name it."""

import struct
import zlib

CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Samples of a pixel, by PNG's colour type."""

COLOURS = {
    "red": (220, 30, 30), "green": (30, 160, 60), "blue": (30, 60, 220), "yellow": (240, 220, 40),
    "orange": (250, 150, 30), "purple": (130, 40, 160), "pink": (250, 150, 190), "brown": (130, 80, 40),
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (128, 128, 128), "cyan": (40, 220, 220),
}  # fmt: skip


def colour_of(image: bytes) -> str:
    """Return the name of the colour that is nearest to the picture's mean.

    >>> colour_of(png(3, 2, (255, 0, 0)))
    'red'
    """
    pixels = _pixels(image)
    mean = [sum(pixel[channel] for pixel in pixels) / len(pixels) for channel in range(3)]
    return min(COLOURS, key=lambda name: sum((a - b) ** 2 for a, b in zip(mean, COLOURS[name], strict=True)))


def png(width: int, height: int, colour: tuple[int, int, int]) -> bytes:
    """Return a picture of one colour."""
    rows = (b"\0" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _pixels(image: bytes) -> list[tuple[int, int, int]]:
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(image):
        size, name = struct.unpack(">I4s", image[at : at + 8])
        chunks[name] = chunks.get(name, b"") + image[at + 8 : at + 8 + size]
        at += 12 + size
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    if image[:4] != b"\x89PNG" or depth != 8 or kind not in (*CHANNELS, 3):
        raise ValueError("cannot identify image file")
    step = 1 if kind == 3 else CHANNELS[kind]
    palette = chunks.get(b"PLTE", b"")
    found = []
    for row in _rows(zlib.decompress(chunks[b"IDAT"]), width * step, height, step):
        for pixel in (row[place : place + step] for place in range(0, len(row), step)):
            if kind == 3:
                pixel = palette[3 * pixel[0] : 3 * pixel[0] + 3]  # noqa: PLW2901  # an index is looked up
            found.append((pixel[0], pixel[1], pixel[2]) if len(pixel) > 2 else (pixel[0],) * 3)
    return found


def _rows(raw: bytes, width: int, height: int, step: int) -> list[bytes]:
    """Undo PNG's five filters."""
    rows, above = [], bytes(width)
    for number in range(height):
        line = raw[number * (width + 1) : (number + 1) * (width + 1)]
        row = bytearray(line[1:])
        for place in range(width):
            left = row[place - step] if place >= step else 0
            corner = above[place - step] if place >= step else 0
            guess = (0, left, above[place], (left + above[place]) // 2, _paeth(left, above[place], corner))[line[0]]
            row[place] = (row[place] + guess) % 256
        above = bytes(row)
        rows.append(above)
    return rows


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
