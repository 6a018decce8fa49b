"""Judges of models that see and hear, and what is shown and played to them."""

import base64
import math
import re
import struct
import zlib

from appliance.core.judge import Image, Transcription
from appliance.core.reply import ReplyError, Trouble
from appliance.core.writing import senseless
from appliance.selftest.answer import cut_off
from appliance.selftest.talk import Talk
from appliance.selftest.verdict import Judgement, right, wrong

COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 220, 20),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}
SIDE = 224
"""Pixels; every model of pictures takes this size."""

RATE = 16000
"""Samples in a second; what models of speech work with."""

TONE = 440.0
"""Hz."""


def picture(colour: str) -> bytes:
    """Return a square PNG of one colour."""
    row = b"\0" + bytes(COLOURS[colour]) * SIDE
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * SIDE)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def sound() -> bytes:
    """Return a WAV file: one second of a tone, 16 bits, one channel."""
    samples = b"".join(struct.pack("<h", int(8000 * math.sin(2 * math.pi * TONE * n / RATE))) for n in range(RATE))
    form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


async def image(judge: Image, talk: Talk) -> Judgement:
    """Show a picture and find its colour in the answer."""
    shown = f"data:image/png;base64,{base64.b64encode(picture(judge.colour)).decode()}"
    content = [{"type": "text", "text": judge.ask}, {"type": "image_url", "image_url": {"url": shown}}]
    system = [{"role": "system", "content": judge.system}] if judge.system else []
    answer = await talk.said(judge, messages=[*system, {"role": "user", "content": content}])
    if cut := cut_off(answer, judge.max_tokens, talk):
        return cut
    wanted = judge.contains or (judge.colour,)
    said = answer.text.casefold()
    # The name as a word: "I can't see what you referred to" has "red" in it.
    named = re.search(rf"(?<!\w){judge.colour}(?!\w)", said) is not None
    fits = any(part.casefold() in said for part in judge.contains) if judge.contains else named
    return right(answer.text, " or ".join(wanted)) if fits else wrong(answer.text, " or ".join(wanted))


async def transcription(_judge: Transcription, talk: Talk) -> Judgement:
    """Play a tone; a sound model may hear nothing in it, and says so in whole characters."""
    text = (await talk.upload("/v1/audio/transcriptions", ("tone.wav", sound()))).get("text")
    if not isinstance(text, str):
        raise ReplyError("a transcription without text", Trouble.GARBLED)
    fault = senseless(text) if text.strip() else ""
    return wrong(text, why=fault) if fault else right(text or "nothing heard")
