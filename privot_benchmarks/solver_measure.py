"""Rows, timing in turns, tuning and tables of privot_benchmarks/solver.py."""

import json
import logging
import platform
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import solver_own
import torch
from solver_rivals import LIBRARIES, Form, Step
from solver_settings import DENSE_UP_TO, Setting, data_folder, images, mixed_table, towns
from torch import Tensor

BEST = Path(__file__).with_name("solver_best.json")
GOOD_ENOUGH = 1e-2
# Tuning gives a form up once it takes this many times the best so far.
GIVE_UP = 1.5
OWN = "privot"
OWN_FORM = Form(OWN, "tolerance", solver_own.TOLERANCES, solver_own.step, lambda _: True)
TUNED = {OWN: lambda: [OWN_FORM], **LIBRARIES}

logging.getLogger("jax").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Measured:
    """One line: milliseconds a step, and its gradient's relative error (None for a floor)."""

    setting: str
    implementation: str
    ms: float
    gradient_error: float | None

    def as_dict(self) -> dict[str, str | float | None]:
        """Plain values."""
        return asdict(self)


def rows(quick: bool, only: str | None) -> dict[str, Callable[[], Setting]]:
    """Makers of the settings by name."""
    data = data_folder()
    sigmas = (1, 4) if quick else (0.5, 1, 2, 4, 8)
    makers: dict[str, Callable[[], Setting]] = {
        f"b=400 d=784 p={p} σ={sigma:g}": lambda p=p, sigma=sigma: images(400, p, sigma, data)
        for p in (2, 1)
        for sigma in sigmas
    }
    makers |= {f"n=4096 d=2 p={p}": lambda p=p: towns(4096, p) for p in (1, 2)}
    if not quick:
        makers["b=1000 mixed, 14 columns"] = lambda: mixed_table(1000)
        makers["b=4096 d=784 p=2 σ=4"] = lambda: images(4096, 2, 4, data)
        makers["n=65536 d=2 p=2"] = lambda: towns(65_536, 2)
    return {name: make for name, make in makers.items() if only is None or only in name}


def missing() -> list[str]:
    """What is not compared, and why."""
    reasons = []
    for library, forms in LIBRARIES.items():
        try:
            forms()
        except ImportError as error:
            reasons.append(f"skipped {library}: {error}")
    return reasons


def conditions(threads: int) -> str:
    """What the numbers depend on."""
    digits = "MNIST" if data_folder() else "made up (PRIVOT_DATA is not set)"
    head = f"{threads} threads, {platform.machine()}, torch {torch.__version__}, images: {digits}"
    return "\n".join([head, *missing()])


def forms_of(library: str, setting: Setting) -> list[Form]:
    """Ways of calling a library that fit a setting; none where it is not installed."""
    try:
        return [form for form in TUNED[library]() if form.fits(setting)]
    except ImportError:
        return []


def tune(makers: dict[str, Callable[[], Setting]], libraries: Collection[str]) -> None:
    """Find the fastest accurate way of each library for each setting, and write it down."""
    best = json.loads(BEST.read_text()) if BEST.exists() else {}
    for name, make in makers.items():
        setting = make()
        reference = solver_own.reference(setting)
        for library in libraries:
            if forms := forms_of(library, setting):
                best.setdefault(name, {})[library] = _tuned(setting, forms, reference)
        BEST.write_text(json.dumps(best, indent=1, ensure_ascii=False) + "\n")


def _tuned(setting: Setting, forms: list[Form], reference: Tensor) -> list[str | float]:
    """Name and knob of the fastest accurate form, or of the most accurate one."""
    tried: list[tuple[bool, float, str, float]] = []
    fastest = float("inf")
    for form in forms:
        for knob in form.knobs:
            step = form.make(setting, knob)
            error = _error(setting, step(), reference)
            seconds = _quickest(step)
            if error != error:
                break
            good = error <= GOOD_ENOUGH
            tried.append((not good, seconds if good else error, form.name, knob))
            if good:
                fastest = min(fastest, seconds)
            if good or seconds > max(GIVE_UP * fastest, 0.1 if fastest < 1 else 0):
                break
    return list(min(tried)[2:])


def _quickest(step: Step) -> float:
    spent: list[float] = []
    while len(spent) < 8 and sum(spent) < 0.4:
        start = time.perf_counter()
        step()
        spent.append(time.perf_counter() - start)
    return min(spent)


def _error(setting: Setting, gradient: Tensor, reference: Tensor) -> float:
    return float((setting.pull(gradient).double() - reference).norm() / reference.norm())


def measure(name: str, setting: Setting, quick: bool) -> list[Measured]:
    """All implementations on one setting, in turns: ours, the rivals' best, and the floor."""
    reference = solver_own.reference(setting)
    chosen = json.loads(BEST.read_text())[name]
    tolerance = chosen.pop(OWN)[1]
    steps: dict[str, Step] = {OWN: solver_own.step(setting, tolerance)}
    if setting.before is not None and max(setting.shape) > DENSE_UP_TO:
        steps[f"{OWN}, warm"] = solver_own.warm_step(setting, tolerance)
    for library, (form_name, knob) in chosen.items():
        for form in forms_of(library, setting):
            if form.name == form_name:
                steps[f"{library}: {form_name}, {knob:g}"] = form.make(setting, knob)
    errors: dict[str, float | None] = {
        label: _error(setting, step(), reference) for label, step in steps.items()
    }
    for label, floor in solver_own.floors(setting).items():
        floor()
        steps[label], errors[label] = floor, None
    times = in_turns(steps, budget=2.0 if quick else 8.0)
    return [Measured(name, label, 1e3 * times[label], errors[label]) for label in steps]


def in_turns(steps: dict[str, Step], budget: float) -> dict[str, float]:
    """Median seconds of each step, called in turns for about a budget of seconds; ours at least 3."""
    spent: dict[str, list[float]] = {label: [] for label in steps}
    begin = time.perf_counter()
    while len(spent[OWN]) < 3 or (time.perf_counter() - begin < budget and len(spent[OWN]) < 50):
        for label, step in steps.items():
            # A slow rival need not be called as often as a fast one.
            if label != OWN and sum(spent[label]) > budget / len(steps):
                continue
            start = time.perf_counter()
            step()
            spent[label].append(time.perf_counter() - start)
    return {label: sorted(times)[len(times) // 2] for label, times in spent.items()}


def table(measured: list[Measured]) -> str:
    """Milliseconds, errors, and ratios to ours; ours against the best rival and the floor."""
    own = next(m for m in measured if m.implementation == OWN)
    floor = next((m for m in measured if m.gradient_error is None), None)
    rivals = [m for m in measured if ":" in m.implementation and m.gradient_error is not None]
    lines = [own.setting]
    for m in measured:
        error = "" if m.gradient_error is None else f"error {m.gradient_error:.1e}"
        accurate = m.gradient_error is None or m.gradient_error <= GOOD_ENOUGH
        mark = "" if accurate else " (not accurate enough)"
        lines.append(
            f"  {m.implementation:44s} {m.ms:9.2f} ms  ×{m.ms / own.ms:<7.2f} {error}{mark}"
        )
    best = min((m.ms for m in rivals if m.gradient_error <= GOOD_ENOUGH), default=None)
    summary = []
    if best is not None:
        summary.append(f"best rival / ours ×{best / own.ms:.2f}")
    if floor is not None:
        summary.append(f"ours / floor ×{own.ms / floor.ms:.2f}")
    if best is not None and floor is not None:
        summary.append(f"best rival / floor ×{best / floor.ms:.2f}")
    return "\n".join([*lines, f"  = {', '.join(summary)}"]) if summary else "\n".join(lines)
