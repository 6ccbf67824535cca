"""Animations of the worlds, made of the pictures that they draw, and the gallery that opens the documentation.

`python docs/gallery.py gossip_bandit_v0` writes `docs/_static/gossip_bandit.webp`, which the README shows.
"""

import contextlib
import hashlib
import html
import importlib.metadata
import inspect
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from taciturn.envs.core import Population, picture
from taciturn.registry import entry
from taciturn.validation import Array

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "docs/_build/films"
FRAMES, COLOURS, LARGEST = 24, 40, 150_000
PLAYED, AT_MOST, LAST = 4000, 600, 1500
"""Milliseconds: of all frames but the last, at most of one, and of the last."""


def frames(world: str) -> list[Array]:
    """Pictures uint8 [400, 640, 3] of the first run of a world's example, played step by step: `FRAMES` from its start
    on, evenly among its turns, or one a turn if there are fewer, and one of its end."""
    turns = list[Any]()
    played(world, lambda env: turns.append(None))
    wanted, taken = {round(x) for x in np.linspace(0, len(turns) - 1, FRAMES)}, list[Array]()
    numbers = iter(range(len(turns)))
    env = played(world, lambda env: taken.append(picture(env)) if next(numbers) in wanted else None)
    return [*taken, picture(env)]


def played(world: str, look: Callable[[Any], None]) -> Any:
    """Play a world's example without shortcuts, calling `look` with the population before each turn of the first run
    in which the first policy acts; the population."""
    shown = entry(world).example
    assert shown is not None, f"the descriptor of {world} needs an example"
    names: dict[str, Any] = {}
    mechanism = f"from taciturn.wrappers import {shown.mechanism}\n" if shown.mechanism else ""
    exec(f"import taciturn\nfrom taciturn.envs import {world}\nfrom taciturn.policies import {shown.policies}", names)
    exec(f"{mechanism}env = {world}.population({shown.world})", names)
    first, *more = shown.run
    given, env = eval(f"dict(policy={first}, {', '.join(more)})", names), names["env"]
    policy = next(iter(given["policy"].values())) if isinstance(given["policy"], dict) else given["policy"]
    kind = type(policy)

    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not env.done[0]:
            look(env)
        return kind.act(self, *args, **kwargs)

    # A policy that overrides `act` is played step by step.
    policy.__class__ = type(kind.__name__, (kind,), {"act": act, "public_schedule": kind.public_schedule})
    names["taciturn"].simulate(env, seed=0, **given)
    return env


def film(taken: list[Array]) -> bytes:
    """Pictures as an animated WebP file, without loss but for the number of colours. It begins with the last, which
    stays for a while."""
    palette = Image.fromarray(taken[-1]).quantize(COLOURS)
    colours = np.array(palette.getpalette()).reshape(-1, 3)
    colours[(colours >= 248).all(1)] = 255  # the nearest colour is found by the upper bits alone
    palette.putpalette(colours.ravel().tolist())
    order = [taken[-1], *taken[:-1]]
    last, *more = (Image.fromarray(one).quantize(palette=palette, dither=Image.Dither.NONE) for one in order)
    durations = [LAST, *[min(PLAYED // len(taken), AT_MOST)] * len(more)]
    file = io.BytesIO()
    last.save(file, "webp", save_all=True, append_images=more, duration=durations, loop=0, lossless=True, method=4)
    return file.getvalue()


def still(taken: list[Array]) -> bytes:
    """The last picture as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(taken[-1]).save(file, "png", optimize=True)
    return file.getvalue()


def films(world: str) -> dict[str, bytes]:
    """The animation and its last picture, by the ends of their files' names. They are kept until some source of worlds,
    policies or of this file changes, or a version of what draws."""
    text = hashlib.sha256("".join(map(importlib.metadata.version, ("numpy", "matplotlib", "pillow"))).encode())
    for folder in ("envs", "policies", "src/taciturn/privacy", "wrappers"):
        for source in sorted((ROOT / folder).rglob("*.py")):
            text.update(source.read_bytes())
    text.update(Path(__file__).read_bytes())
    names = {end: CACHE / f"{world}-{text.hexdigest()[:16]}.{end}" for end in ("webp", "png")}
    if not all(name.exists() for name in names.values()):
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob(f"{world}-*"):
            old.unlink()
        taken = frames(world)
        for name, content in zip(names.values(), (film(taken), still(taken)), strict=True):
            if len(content) > LARGEST:
                raise ValueError(f"{name.name} must have at most {LARGEST:,} bytes, not {len(content):,}")
            name.write_bytes(content)
    return {end: name.read_bytes() for end, name in names.items()}


def told(world: str) -> str:
    """What a world's picture shows, as its `draw` says."""
    population = entry(world).world.population()
    if type(population).draw is Population.draw:
        return f"{entry(world).title}: its state as a line of text"
    function = getattr(sys.modules[type(population).__module__], "draw", None) or type(population).draw
    text = " ".join((inspect.getdoc(function) or "").split()).partition(". ")[0].rstrip(".")
    text = text.removeprefix("Draw ")
    return f"{entry(world).title}: {text[:1].lower()}{text[1:]}"


def shown(world: str, above: str) -> str:
    """HTML of the animation, or of its last picture for readers who asked for less motion; `above` leads from the page
    to the root of the documentation."""
    where = f"{above}_static/{world}"
    return (
        f'<picture><source srcset="{where}.png" media="(prefers-reduced-motion: reduce)">'
        f'<img class="world" src="{where}.webp" alt="{html.escape(told(world))}" width="640" height="400"></picture>'
    )


def gallery(pages: dict[str, tuple[str, str]]) -> str:
    """HTML of a card for each world, from `{world: (its page, its question)}`."""
    cards = [
        f'<a class="card" href="{page}">{shown(world, "")}'
        f"<strong>{html.escape(entry(world).title.capitalize())}</strong><span>{html.escape(question)}</span></a>"
        for world, (page, question) in pages.items()
    ]
    return '<div class="gallery">\n' + "\n".join(cards) + "\n</div>\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with contextlib.redirect_stdout(None):
            made = films(name)
        (ROOT / f"docs/_static/{name.rpartition('_v')[0]}.webp").write_bytes(made["webp"])
