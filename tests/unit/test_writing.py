"""What no sound model writes, and what every one may."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.writing import SCRIPTS, letters_of, senseless, special_tokens, stuck, unwhole

SOUND = {
    "greeting": "Hello! A river is a natural stream of water that flows towards a sea, a lake or another river.",
    "one word": "Paris",
    "one letter": "A",
    "numbers": " ".join(map(str, range(1, 200))),
    "commas": ",".join(map(str, range(1, 200))),
    "ones": "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987",
    "list": "\n".join(f"{number}. An item of the list" for number in range(1, 10)),
    "code": "def add(a, b):\n    return a + b\n\n\n"
    "for i in range(10):\n    for j in range(10):\n        print(add(i, j))\n",
    "deep code": "{\n" + "".join(f'{" " * 4 * n}"{n}": {{\n' for n in range(9)) + "}" * 9,
    "table": "| a | b | c | d | e | f | g | h | i |\n|---|---|---|---|---|---|---|---|---|",
    "aligned table": "| name | n |\n| :---: | :---: | :---: | :---: | :---: | :---: | :---: | :---: |\n| a | 1 |",
    "rule": "Title\n" + "=" * 60 + "\nSome text below the title, which is long enough to be one.\n" + "-" * 60,
    "frame": "+----+----+----+----+----+----+----+----+----+----+\n| a river | a lake | the sea |\n"
    + "+----" * 10
    + "+",
    "art": "    /\\_/\\\n   ( o.o )\n    > ^ <\n" + " " * 40 + "a cat, drawn by a model",
    "bar": "Progress: ██████████████████████████████░░░░░░░░░░ 75 % of the work is done by now",
    "dots": "1. Introduction ........................................ 3\n2. Rivers ........................... 7",
    "laugh": "Ha ha ha ha! That was a good one. Do you know another?",
    "long laugh": "Ha ha ha ha ha ha ha ha ha ha! That was a very good joke; a river would laugh.",
    "song": "Na na na na na na na na, hey Jude. It is a song of 1968 that everybody knows, with a long refrain.",
    "poem": "The woods are lovely, dark and deep,\nBut I have promises to keep,\nAnd miles to go before I sleep,\n" * 2,
    "emoji": "🎉🎉🎉 Congratulations! 🦆🔧🇮🇸👩‍🚀 Have a nice day 😊",
    "family": "👩‍👩‍👧‍👦",
    "million": "A quintillion is 1000000000000000000, a one with eighteen zeros.",
    "korean": "안녕하세요! 강은 바다나 호수로 흐르는 자연적인 물줄기입니다. ㅋㅋㅋㅋㅋㅋㅋ",
    "japanese": "こんにちは\uff01川は自然の水の流れです。ありがとうございます。",
    "chinese": "你好\uff01河流是流向海洋、湖泊或其他河流的天然水流。",
    "russian": "Здравствуйте! Река — это природный поток воды, текущий к морю.",
    "greek": "Γεια σας! Ένας ποταμός είναι ένα φυσικό ρεύμα νερού.",
    "arabic": "مرحبًا! النهر هو مجرى مائي طبيعي يتدفق نحو البحر.",
    "hebrew": "שלום! נהר הוא זרם מים טבעי.",
    "hindi": "नमस्ते! नदी पानी की एक प्राकृतिक धारा है।",
    "thai": "สวัสดีครับ แม่น้ำคือสายน้ำธรรมชาติ",
    "persian": "سلام! رودخانه جریان طبیعی آب است که به دریا می‌ریزد.",
    "german": "Das macht „Spaß“! Ein Fluß… Größe \u2013 Übermut. „Gruß“ und „heiß“.",
    "quoted german": "„Das macht Spaß“",
    "french": "«\u00a0Café\u00a0» : l\u2019été, l\u2019île, le cœur… « À bientôt ! » dit-il, «\u00a0liberté\u00a0».",
    "short french": "«\u00a0café\u00a0»",
    "spanish": "¿Qué tal? ¡Adiós! El niño comió una piña…",
    "portuguese": "NÃO! São Paulo, coração, «irmã»…",
    "turkish": "Şu \u0131rmak İstanbul\u2019dan geçer mi? Çok güzel ağaçlar.",
    "polish": "Zażółć gęślą jaźń — „źródło”.",
    "vietnamese": "Xin chào! Sông là dòng nước tự nhiên chảy ra biển.",
    "icelandic": "Þetta er ár og ð, æ, ö…",
    "signs": "2\u00d7½ + 3\u00d7¼ = 1¾; 5°C ± 2°; §12 ¶3; £5, ¥9 \u2013 CAFÉ™ and NOÉ®",
    "mathematics": "∑_{n=1}^∞ 1/n² = π²/6, and √2 ≈ 1.41421356237309504880168872",
    "digits": "π is 3.14159265358979323846264338327950288419716939937510582097494459230781640628620899",
    "thirds": "1/3 is 0.333333333333 and so on; 2/3 is 0.666666666667.",
    "gene": "GATTACA GATTACA CCGGTTAA is a made-up piece of DNA",
    "markup": "<div><div><div><p>a</p></div></div></div>",
}
"""Whatever a sound model may say."""

BROKEN = {
    "the": "the " * 30,
    "the, cut": "the the the the the the the the the the th",
    "after a start": "A river is a natural stream of water that" + " flows" * 12,
    "signs": "!" * 64,
    "dots": ". " * 32,
    "dashes": "-" * 100,
    "a letter": "a" * 100,
    "blanks": "\n" * 64 + "a",
    "zeros": "0" * 200,
    "korean": "강강강강강" * 20,
    "phrase": "I am a model. " * 12,
    "lines": "Answer:\n" * 12,
    "numbers": "1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2",
    "nothing": " \n\t",
    "controls": "\x00\x01\x02\x03 abc",
    "private": "\ue000\ue001\ue002",
    "replacement": "A river \ufffd flows.",
    "surrogate": "A river \ud83d flows.",
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_what_a_sound_model_may_say_has_a_sense(text: str) -> None:
    assert senseless(text) == ""
    assert special_tokens(text) == ""


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_no_sound_model_says_has_none(text: str) -> None:
    assert senseless(text)


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_a_text_that_is_read_as_another_encoding_is_told(text: str) -> None:
    for encoding in ("latin-1", "cp1252"):
        broken = "".join(_misread(byte, encoding) for byte in text.encode())
        # One Greek letter among digits may be a sign of something else.
        strange = sum(not char.isascii() for char in text) > 1
        assert bool(unwhole(broken)) is strange, broken
    assert unwhole(text[:40] + "\ufffd").startswith("1 replacement character")


@pytest.mark.parametrize(
    "text",
    ["占쏙옙占쏙옙 占쏙옙占쏙옙", "안녕하세요 " + "반갑습니다".encode().decode("latin-1")],
    ids=["lost twice", "half of it"],
)
def test_korean_that_went_through_another_encoding_is_told(text: str) -> None:
    assert "another encoding" in unwhole(text)


def _misread(byte: int, encoding: str) -> str:
    # Where cp1252 knows no character, programs take Latin-1's.
    return bytes([byte]).decode(encoding, "ignore") or chr(byte)


WORDS = ("river", "sea", "lake", "water", "bread", "oven", "orbit", "year", "강", "바다", "река", "川", "früh", "café")


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=8, max_size=120))
def test_words_that_differ_are_not_called_stuck(words: list[str]) -> None:
    assert stuck(" ".join(f"{word}{number}" for number, word in enumerate(words))) == ""


@settings(deadline=None)
@given(st.text(min_size=3, max_size=24).filter(lambda unit: any(char.isalnum() for char in unit)), st.integers(12, 60))
def test_anything_over_and_over_is_told(unit: str, times: int) -> None:
    assert stuck(unit * times)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    for verdict in (senseless(text), unwhole(text), stuck(text), special_tokens(text)):
        assert isinstance(verdict, str)
    if text.isascii():
        assert unwhole(text) == ""


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=0x370, max_codepoint=0xFFFC, exclude_categories=["Cs"]), min_size=1))
def test_text_beyond_latin_is_never_another_encoding(text: str) -> None:
    # Signs such as the euro's are among those that bytes may be misread as.
    letters = "".join(char for char in text if char.isalpha())
    assert unwhole(letters) == ""


@pytest.mark.parametrize(
    "token",
    [
        *(
            "<|im_end|>",
            "<|endoftext|>",
            "<|eot_id|>",
            "</s>",
            "<s>",
            "<pad>",
            "<unk>",
            "<end_of_turn>",
            "[INST]",
            "[/INST]",
        ),
        *("<\uff5cend▁of▁sentence\uff5c>", "[CLS]", "[gMASK]", "<|end|>", "<|user|>", "<|im_start|>"),
    ],
)
def test_special_tokens_of_common_models_are_known(token: str) -> None:
    assert special_tokens(f"Paris{token}") == token


@pytest.mark.parametrize(
    "text",
    [
        "<|begin_of_thought|>hm<|end_of_thought|>",
        "<|begin_of_box|>42<|end_of_box|>",
        "a <b> c",
        "[1]",
        "<|",
        "x |> y <| z",
    ],
)
def test_what_some_models_write_as_text_is_no_special_token(text: str) -> None:
    assert special_tokens(text) == ""


def test_letters_of_every_script_are_counted() -> None:
    text = "안 中 ひ カ я ω ع ש ท ह ব அ తె ქ \u0561 አ"
    assert {script: letters_of(script, text) > 0 for script in SCRIPTS} == dict.fromkeys(SCRIPTS, True)
    assert letters_of("hangul", "hello 中文 12") == 0
    assert letters_of("cyrillic", "Привет, Paris") == 6


@pytest.mark.parametrize(
    "text", ["-" * (1 << 20), "ab" * (1 << 19), "a b c d e f g h" * (1 << 16), "é" * (1 << 20), "\x00" * (1 << 20)]
)
def test_a_long_text_takes_no_long_time(text: str) -> None:
    start = time.monotonic()
    senseless(text)
    unwhole(text)
    assert time.monotonic() - start < 5
