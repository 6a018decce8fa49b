"""The table of causes: each rule witnessed twice, each pattern needed, each remedy one that this program knows."""

import dataclasses
import re
from collections import defaultdict
from functools import cache

import pytest

from appliance.core.cause import RULES
from appliance.core.cause.rule import Rule, Source, filled
from appliance.core.config import config_of, reserved_flag
from appliance.core.diagnosis import Sighting, cause_seen
from appliance.core.record import keys_of
from appliance.core.section import SECTIONS
from appliance.core.utterance import utterances
from appliance.engine.optionlist import options_of
from tests.unit.witness import Witness, witnesses

NAMES = ("GPU", "NCCL", "Ray", "Gloo", "Triton", "CUDA")
OPEN = {"vllm", "env", "knobs"}
FLAGS = {option.name for option in options_of(None, "0.32.0").options}
KEYS = {key for cls in SECTIONS.values() for key in keys_of(cls)}
NAMED = [pytest.param(rule, id=f"{number}-{rule.id}") for number, rule in enumerate(RULES)]


@cache
def seen_by_rule() -> dict[int, list[tuple[Witness, str]]]:
    """Return for each rule, by its number, the failures that it explains, and the line that it reads there."""
    found: dict[int, list[tuple[Witness, str]]] = defaultdict(list)
    for witness in witnesses():
        seen = cause_seen(utterances(witness.lines), witness.evidence)
        if seen:
            found[next(number for number, rule in enumerate(RULES) if rule is seen.rule)].append((witness, seen.line))
    return found


def seen_by(rule: Rule) -> list[tuple[Witness, str]]:
    return seen_by_rule()[next(number for number, one in enumerate(RULES) if one is rule)]


def told(seen: Sighting) -> tuple[object, ...]:
    return (seen.rule.id, seen.rule.summary, seen.depth, seen.fields, seen.line)


@pytest.mark.parametrize("rule", NAMED)
def test_a_rule_explains_two_failures_of_different_sources_at_least(rule: Rule) -> None:
    assert len({witness.source for witness, _ in seen_by(rule)}) >= 2


@pytest.mark.parametrize("rule", NAMED)
def test_every_wording_of_a_rule_was_seen(rule: Rule) -> None:
    for pattern in rule.says:
        assert any(re.search(pattern, line) for _, line in seen_by(rule)), pattern


@pytest.mark.parametrize("rule", NAMED)
def test_without_a_wording_some_failure_would_not_be_explained(rule: Rule) -> None:
    """What mutation would ask: a pattern that can go and nothing changes is one too many."""
    for pattern in rule.says:
        fewer = dataclasses.replace(rule, says=tuple(one for one in rule.says if one != pattern))
        rules = [fewer if one is rule else one for one in RULES]
        changed = False
        for witness, _ in seen_by(rule):
            before = cause_seen(utterances(witness.lines), witness.evidence)
            after = cause_seen(utterances(witness.lines), witness.evidence, rules)
            assert before
            changed |= after is None or told(after) != told(before)
        assert changed, pattern


@pytest.mark.parametrize("rule", NAMED)
def test_a_pattern_reads_what_is_said_and_not_where_it_is_said(rule: Rule) -> None:
    for pattern in (*rule.says, rule.within, rule.unless):
        assert not re.search(r"\.py|:\\d\+\]|pid=|site-packages", pattern), pattern
        re.compile(pattern)
    assert not (rule.within and rule.source is Source.KERNEL)


@pytest.mark.parametrize("rule", NAMED)
def test_a_rule_is_written_like_the_others(rule: Rule) -> None:
    assert re.fullmatch(r"(?:engine|gpu|host|checkpoint|setting|network|compile|ray)(?:\.[a-z]+(?:-[a-z]+)*)", rule.id)
    assert rule.remedy
    for text in (rule.summary, rule.remedy):
        assert text == text.strip()
        assert not text.endswith(".")
        assert "  " not in text
        assert text[0] in "{/" or text[0].islower() or text.split()[0].strip(",") in NAMES
    for name in re.findall(r"\{(\w+)\}", rule.summary + rule.remedy):
        assert name.islower()


@pytest.mark.parametrize("rule", NAMED)
def test_a_remedy_names_settings_that_exist(rule: Rule) -> None:
    text = re.sub(r"\{\w+\}", "", rule.remedy)
    for section, key in re.findall(r"\[(\w+)\] (?!or\b|and\b)(\w+)", text):
        assert section in {*SECTIONS, *OPEN}, section
        if section in SECTIONS:
            assert key in keys_of(SECTIONS[section]), f"[{section}] {key}"
        elif section == "vllm":
            assert key in FLAGS, key
            assert reserved_flag(key) is None, key
    for word in re.findall(r"(?<![\w/.-])[a-z]+(?:_[a-z0-9]+)+\b(?!\.)", text):
        assert word in FLAGS | KEYS | {"rope_parameters"}, word
    for word in re.findall(r"\[env\] ([A-Z][A-Z0-9_]+)", text):
        assert config_of(f'[env]\n{word} = "1"', "x.toml").env[0].name == word


def test_the_same_id_ends_the_same_way() -> None:
    ends = defaultdict(set)
    for rule in RULES:
        ends[rule.id].add(rule.permanent)
    assert [name for name, found in ends.items() if len(found) > 1] == []


def test_what_is_not_known_is_left_out_of_a_text() -> None:
    assert filled("it takes {needed}<, {there} is there><; stop {other}>", {"needed": "1"}) == "it takes 1"
    assert filled("{needed}<, {there} is there>", {"needed": "1", "there": "2"}) == "1, 2 is there"
    assert filled("it takes {needed}", {}) == "it takes ?"
