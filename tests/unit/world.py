"""A machine in its world, and every state that the two can reach: what tests of the lifecycle walk over."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any

from appliance.core.effect import Effect, Examine, Launch, Prepare, SetAlarm, Tell
from appliance.core.event import (
    AlarmRang,
    DriverChanged,
    EngineAnswered,
    EngineFell,
    EngineLeft,
    EngineProved,
    EngineSpoke,
    EngineStalled,
    Event,
    Prepared,
    ProbeAsked,
    Refused,
    ReloadAsked,
    SelfTestFailed,
    SelfTestPassed,
    SelfTestPostponed,
    Started,
    StopAsked,
)
from appliance.core.lifecycle import step
from appliance.core.machine import Machine
from appliance.core.phase import ExitStatus, Phase, Purpose, Word
from appliance.core.plan import Plan
from appliance.core.policy import Policy
from tests.unit.example import plan


def planned(name: str, **policy: Any) -> Plan:
    """Return a plan with the choices of a person."""
    return dataclasses.replace(plan(name), policy=Policy(**policy))


OLD = planned("old", tries=2, losses=1)
NEW = planned("new", tries=2, losses=1, hold=True, restart_wrong=False, repeat=0.0)
STUBBORN = planned("stubborn", tries=2, losses=1, hold=True, rollback=False)

MOST = 2
"""Launches that one of these plans may fail, and the loss of its engine that ends the service."""

ENDED = (Phase.FAILED, Phase.STOPPED)


@dataclasses.dataclass(frozen=True)
class World:
    """A machine and what its effects have made of the world."""

    machine: Machine
    alive: bool = False
    """An engine's processes exist."""
    preparing: bool = False
    full: bool = False
    """A full examination of this engine was begun, whose verdict may still come."""
    light: bool = False
    passed: bool = False
    """This engine has passed a full examination."""
    unproven: bool = False
    """The engine was restarted for wrong answers, and no repetition has passed since, nor did other settings."""
    told: Word | None = None
    """The last of READY and RELOADING that systemd heard."""
    launches: int = 0
    """Since an engine was ready, or a person asked for a reload, or the last good settings were put back."""
    lost: int = 0
    """Engines that were ready and got lost, since one has served for long, or a person asked for a reload."""
    armed: bool = False
    """An alarm with the newest number is set."""


def events_in(world: World) -> Iterator[Event]:
    """Yield what can happen next, and late answers to questions of the past."""
    machine = world.machine
    yield from (StopAsked(), ProbeAsked(), DriverChanged(), AlarmRang(alarm=machine.alarm - 1))
    if machine.asked - machine.settled < 2:
        yield ReloadAsked()
    if machine.phase is Phase.STARTING:
        yield Started()
    if world.armed:
        yield AlarmRang(alarm=machine.alarm)
    for attempt in (machine.attempt - 1, *((machine.attempt,) if world.preparing else ())):
        yield from (Prepared(attempt=attempt, plan=new) for new in (OLD, NEW, STUBBORN))
        yield Refused(attempt=attempt, status=ExitStatus.CONFIGURATION, why="refused")
    for launch in (machine.launch - 1, *((machine.launch,) if world.alive else ())):
        yield from (EngineSpoke(launch=launch), EngineAnswered(launch=launch), EngineProved(launch=launch))
        yield EngineStalled(launch=launch, why="stalled")
        yield EngineFell(launch=launch, status=ExitStatus.TRY_LATER, why="fell")
        yield EngineLeft(launch=launch, status=ExitStatus.CONFIGURATION, why="left")
    if world.alive:
        yield EngineLeft(launch=machine.launch, status=ExitStatus.TRY_LATER, why="left")
    yield SelfTestPostponed(launch=machine.launch if world.light else machine.launch - 1)
    for launch in (machine.launch - 1, *((machine.launch,) if world.full or world.light else ())):
        yield SelfTestPassed(launch=launch)
        for status in (ExitStatus.GAVE_UP, ExitStatus.TRY_LATER):
            yield SelfTestFailed(launch=launch, status=status, why="wrong")


def happened(world: World, event: Event) -> World:
    """Return the world after an event itself, before the machine answers."""
    machine = world.machine
    match event:
        case EngineLeft(launch=machine.launch):
            return dataclasses.replace(world, alive=False, full=False, light=False, passed=False)
        case Prepared(attempt=machine.attempt) | Refused(attempt=machine.attempt):
            return dataclasses.replace(world, preparing=False)
        case SelfTestPassed(launch=machine.launch):
            proven = machine.phase is Phase.SERVING or machine.purpose in (Purpose.START, Purpose.RELOAD)
            unproven = world.unproven and not (proven and machine.phase is not Phase.CHECKING)
            return dataclasses.replace(answered(world), passed=world.passed or world.full, unproven=unproven)
        case SelfTestFailed(launch=machine.launch):
            return answered(world)
        case SelfTestPostponed(launch=machine.launch):
            return dataclasses.replace(world, light=False)
        case _:
            return world


def answered(world: World) -> World:
    """Return the world with one verdict less to come; that of the full examination was asked for first."""
    return dataclasses.replace(world, full=False) if world.full else dataclasses.replace(world, light=False)


def done(world: World, effect: Effect) -> World:
    """Return the world after an effect; hold the promises on the way."""
    match effect:
        case Launch():
            assert not world.alive, "two engines on the same GPUs"
            assert world.launches < MOST, "a loop of launches"
            return dataclasses.replace(world, alive=True, launches=world.launches + 1)
        case Prepare():
            return dataclasses.replace(world, preparing=True)
        case Examine(launch=world.machine.launch, light=light):
            assert world.alive
            assert light is (world.told is Word.READY), "only an engine that serves is examined lightly"
            return dataclasses.replace(world, light=world.light or light, full=world.full or not light)
        case Tell(word=Word.READY):
            assert world.alive, "READY without an engine"
            assert world.passed, "READY for an engine that has not passed its self-test"
            assert world.told is not Word.READY, "READY said twice"
            return dataclasses.replace(world, told=Word.READY, launches=0)
        case Tell(word=Word.RELOADING):
            assert world.told is Word.READY
            return dataclasses.replace(world, told=Word.RELOADING)
        case SetAlarm(alarm=alarm):
            assert alarm == world.machine.alarm
            return dataclasses.replace(world, armed=True)
        case _:
            return world


def after(world: World, event: Event) -> tuple[World, tuple[Effect, ...]]:
    """Return the world after an event and the machine's answer to it, and that answer."""
    machine, effects = step(world.machine, event)
    before = world.machine
    world = dataclasses.replace(
        happened(world, event), machine=machine, armed=world.armed and machine.alarm == world.machine.alarm
    )
    world = counted(world, before, event)
    if before.phase is Phase.SERVING and restarted_for_answers(event, machine):
        assert not world.unproven, "restarted twice for wrong answers"
        world = dataclasses.replace(world, unproven=True)
    for effect in effects:
        world = done(world, effect)
    return world, effects


def counted(world: World, before: Machine, event: Event) -> World:
    """Return the world with its counts of launches and losses."""
    machine = world.machine
    if machine.purpose is Purpose.ROLLBACK and before.purpose is not Purpose.ROLLBACK:
        world = dataclasses.replace(world, launches=0)
    if machine.begun > before.begun:
        return dataclasses.replace(world, launches=0, lost=0)
    if event == EngineProved(launch=machine.launch) and before.ready:
        return dataclasses.replace(world, lost=0)
    if before.ready and getattr(event, "launch", 0) == before.launch and isinstance(event, LOSSES):
        assert world.lost < MOST, "a loop of losses"
        return dataclasses.replace(world, lost=world.lost + 1)
    return world


LOSSES = (EngineFell, EngineLeft, EngineStalled)


def restarted_for_answers(event: Event, machine: Machine) -> bool:
    """Tell whether a verdict about an engine that served has just begun a restart."""
    begun = machine.phase is Phase.STOPPING and machine.purpose is Purpose.RESTART
    return begun and isinstance(event, SelfTestFailed)


def folded(world: World) -> World:
    """Return the same world with small numbers and no texts, so that finitely many are reached."""
    machine = world.machine
    if machine.phase in ENDED:
        return World(Machine(phase=machine.phase))
    small = dataclasses.replace(
        machine,
        attempt=10,
        launch=10,
        alarm=10,
        asked=machine.asked - machine.settled,
        begun=machine.begun - machine.settled,
        settled=0,
        result=None,
        why="",
        wrong=machine.wrong and "wrong",
        trouble="",
        pause=min(machine.pause, 1.0),
        restarted=None if machine.restarted is None else "wrong",
    )
    if machine.phase is Phase.STOPPING:
        # What it had passed must help no other engine, and one late verdict is as good as another.
        pending = world.full or world.light or world.preparing
        world = dataclasses.replace(world, passed=False, full=pending, light=pending, preparing=pending)
        if not machine.goes_on:  # and what had failed before matters no more
            small = dataclasses.replace(small, good=None, failures=0, losses=0, restarted=None)
            world = dataclasses.replace(world, launches=0, lost=0, unproven=False)
    return dataclasses.replace(world, machine=small)


Walked = tuple[World, Event, World, tuple[Effect, ...]]


@cache
def reachable() -> tuple[Walked, ...]:
    """Return every step from every state: the world before, the event, the world after, the effects."""
    start = folded(World(Machine()))
    seen, queue, steps = {start}, deque([start]), []
    while queue:
        world = queue.popleft()
        for event in events_in(world):
            following, effects = after(world, event)
            steps.append((world, event, following, effects))
            if (small := folded(following)) not in seen:
                seen.add(small)
                queue.append(small)
    return tuple(steps)


def _numbered(event: Event, machine: Machine) -> Event:
    numbers: dict[str, Any] = {"attempt": machine.attempt, "launch": machine.launch, "alarm": machine.alarm}
    own = {name: value for name, value in numbers.items() if hasattr(event, name)}
    return dataclasses.replace(event, **own)


def play(*events: Event) -> tuple[Machine, list[Effect]]:
    """Run events in turn; an answer with number 0 gets the number that is awaited."""
    machine = Machine()
    effects: list[Effect] = []
    for event in events:
        machine, more = step(machine, _numbered(event, machine))
        effects += [effect for effect in more if not isinstance(effect, SetAlarm)]
    return machine, effects


def last_alarm(*events: Event) -> float | None:
    """Return the seconds of the alarm that the last event set; None where it set none."""
    machine, _ = play(*events[:-1])
    _, effects = step(machine, _numbered(events[-1], machine))
    alarms = [effect.seconds for effect in effects if isinstance(effect, SetAlarm)]
    return alarms[-1] if alarms else None


GOOD_START = (
    Started(),
    Prepared(attempt=0, plan=OLD),
    EngineAnswered(launch=0),
    SelfTestPassed(launch=0),
)
LEFT = EngineLeft(launch=0, status=ExitStatus.TRY_LATER, why="it died")
WRONG = SelfTestFailed(launch=0, status=ExitStatus.GAVE_UP, why="wrong answer")
FELL = EngineFell(launch=0, status=ExitStatus.TRY_LATER, why="it fell")
STALLED = EngineStalled(launch=0, why="it stands still")
RING = AlarmRang(alarm=0)
UP_AGAIN = (EngineAnswered(launch=0), SelfTestPassed(launch=0))
