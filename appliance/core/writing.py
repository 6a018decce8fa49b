"""What a text is written in, and whether it is whole."""

import re
import unicodedata

SCRIPTS = (
    *("hangul", "cjk", "hiragana", "katakana", "cyrillic", "greek", "arabic", "hebrew", "thai", "devanagari"),
    *("bengali", "tamil", "telugu", "georgian", "armenian", "ethiopic"),
)
"""First words of the Unicode names of letters."""

REPLACEMENT = "�"

SPECIAL = re.compile(
    r"<\|(?!\w*(?:thought|think|solution|channel|message|box))[A-Za-z0-9_]{1,40}\|>|<\uff5c[^\uff5c<>]{1,40}\uff5c>"
    r"|</?s>|<pad>|<unk>|<(?:start|end)_of_turn>|\[/?INST\]|\[(?:gMASK|CLS|SEP|PAD)\]"
)
"""Special tokens as the chat templates of common models spell them; an answer that shows one has run past its end.
Those around thoughts and boxed answers are plain text to some models (OpenThinker, GLM-4.5V)."""

UNIT = 24
"""Characters; a longer passage that comes again may be meant."""

TIMES = 8
"""How often in a row a unit comes in a text that is stuck; two or three times as often where it has two characters or
one."""

MOSTLY = 0.9
"""The part of a text that a row of signs without letters or digits makes up when it is no rule, table or bar."""

FEWEST_SIGNS = 24
"""Characters of a text that is nothing but such a row; somebody who is asked for a line may draw a shorter one."""

EXAMINED = 1 << 16
"""Characters at each end of a text that are looked at for a loop, so that no answer takes long."""

MISREAD = {chr(byte): byte for byte in range(0x80, 0x100)} | {
    char: byte for byte in range(0x80, 0x100) if (char := bytes([byte]).decode("cp1252", "ignore"))
}
"""The byte that a character was when text was read as Latin-1 or as cp1252; programs mix them, for cp1252 has gaps."""

UNLIKELY = re.compile("[\u0250-\u02ff\u07c0-\u07ff]")
"""Phonetic letters and NKo."""

HANGUL = re.compile("[\uac00-\ud7a3\u4e00-\u9fff]+")
"""Korean, and the Chinese characters that its older encoding has too."""

FOREIGN = re.compile(r"[^\x00-\x7f]+")


def letters_of(script: str, text: str) -> int:
    """Count the letters of a script.

    >>> letters_of("hangul", "안녕 hello"), letters_of("cyrillic", "hello")
    (2, 0)
    """
    start = f"{script.upper()} "
    return sum(unicodedata.name(char, "").startswith(start) for char in text if char.isalpha())


def unwhole(text: str) -> str:
    r"""Return what shows that bytes of a text were lost or read as another encoding; empty when nothing does.

    >>> unwhole("안녕"), unwhole("안녕".encode().decode("latin-1"))[:28], unwhole("caf\ufffd")
    ('', 'bytes of another encoding, "', '1 replacement character (U+FFFD)')
    """
    if lost := text.count(REPLACEMENT):
        return f"{lost} replacement character{'s' if lost > 1 else ''} (U+FFFD)"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "half a character (a surrogate)"
    for run in HANGUL.findall(text):
        if len(run) > 2 and (other := _recoded(run)):
            return f'bytes of another encoding, "{run[:12]}" for "{other[:12]}"'
    runs = FOREIGN.findall(text)
    meant = [(run, decoded) for run in runs if (decoded := _misread(run))]
    strange, read = sum(map(len, runs)), sum(len(run) for run, _ in meant)
    # A sign after a letter may look like the two bytes of another by chance; not everywhere in a text.
    certain = read and (
        sum(len(decoded) for _, decoded in meant) > 1 or len(meant[0][0]) > 3 or meant[0][0][0] in "ÃÂâ"
    )
    long = next(((run, decoded) for run, decoded in meant if len(run) > 3 and len(decoded) > 1), None)
    if long and all(char.isalpha() for char in long[1]):
        return f'bytes of another encoding, "{long[0][:12]}" for "{long[1][:12]}"'
    if certain and read >= MOSTLY * strange:
        return f'bytes of another encoding, "{meant[0][0][:12]}" for "{meant[0][1][:12]}"'
    return ""


def _misread(run: str) -> str:
    """Return what a run of characters means when its bytes are read as UTF-8; empty when they are no UTF-8.

    >>> _misread("Ã©"), _misread("é"), _misread("ß“")
    ('é', '', '')
    """
    try:
        meant = bytes(MISREAD[char] for char in run).decode("utf-8")
    except (KeyError, UnicodeError):
        return ""
    # What ß or É before a sign comes to, and what the sign of times does.
    chance = any(UNLIKELY.match(char) or unicodedata.category(char) == "Cn" for char in meant)
    return "" if chance or unicodedata.category(meant[0]) == "Mn" else meant


def _recoded(run: str) -> str:
    """Return what a run of Korean means when its bytes in cp949 are read as UTF-8; empty when they are no UTF-8.

    >>> _recoded("占쏙옙占쏙옙"), _recoded("안녕하세요")
    ('\ufffd\ufffd\ufffd\ufffd', '')
    """
    try:
        return run.encode("cp949").decode("utf-8")
    except UnicodeError:
        return ""


def stuck(text: str) -> str:
    """Return what a text repeats over and over, up to its end or for most of its length; empty when it does not.

    >>> stuck("the the the the the the the the the the"), stuck("1 2 3 4 5 6 7 8 9 10 11 12")
    ('the ', '')
    """
    part = text if len(text) <= 2 * EXAMINED else text[:EXAMINED] + text[-EXAMINED:]
    for size in range(1, UNIT + 1):
        times = TIMES * {1: 3, 2: 2}.get(size, 1)
        for match in re.finditer(rf"(.{{{size}}})\1{{{times - 1},}}", part, re.DOTALL):
            if _is_loop(match[1], len(match[0]), len(part) - match.end(), len(part.strip())):
                return match[1]
    return ""


def _is_loop(unit: str, length: int, rest: int, whole: int) -> bool:
    """Tell whether a unit that comes in a row is all that a model could say, not a rule, a bar or a refrain."""
    if not unit.strip():
        return length >= MOSTLY * whole + FEWEST_SIGNS
    if not any(char.isalnum() for char in unit):
        return length >= FEWEST_SIGNS and length >= MOSTLY * whole
    return (rest < len(unit) + 2 and 4 * length >= whole) or 2 * length >= whole


def senseless(text: str) -> str:
    """Return why no sound model of any kind says a text; empty when one may have."""
    if not text.strip():
        return "nothing"
    if unit := stuck(text):
        return f'"{unit.strip()}" over and over' if unit.strip() else "hardly more than blanks"
    if fault := unwhole(text):
        return fault
    odd = sum(unicodedata.category(char) in ("Cc", "Co", "Cn") and char not in "\n\t\r" for char in text)
    return f"{odd} of {len(text)} characters can't be printed" if odd * 10 > len(text) else ""


def special_tokens(text: str) -> str:
    """Return the first special token that a text shows as words; empty when it shows none."""
    found = SPECIAL.search(text)
    return found[0] if found else ""
