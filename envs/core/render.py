"""Rendering for every view: text, an image without a display, or a window."""

from typing import Any

import numpy as np

from taciturn.envs.core.population import Population
from taciturn.validation import Array

RENDER_MODES = ("human", "ansi", "rgb_array")


def picture(population: Population[Any], replica: int = 0) -> Array:
    """An image of one replica, made without a display: uint8 [height, width, 3]; the population stores a history from
    now on."""
    population.pictured = True
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: run pip install '.[render]' in a clone of taciturn") from error
    figure = Figure(figsize=(6.4, 4.0), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    population.draw(figure.add_subplot(), replica)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


class Renderer:
    """Makes the frames of one replica in a render mode; `human` keeps a window up to date."""

    def __init__(self, population: Population[Any], mode: str | None, replica: int = 0) -> None:
        self.population, self.mode, self.replica = population, mode, replica
        self._window: Any = None

    def frame(self) -> Any:
        """The current frame: str (`ansi`), uint8 array (`rgb_array`), None otherwise."""
        if self.mode == "ansi":
            return self.population.describe(self.replica)
        if self.mode == "rgb_array":
            return picture(self.population, self.replica)
        if self.mode == "human":
            self._show()
        return None

    def update(self) -> None:
        """Redraw the window, if there is one."""
        if self.mode == "human" and self._window is not None:
            self._show()

    def close(self) -> None:
        if self._window is not None:
            import pygame

            self._window = None
            pygame.display.quit()

    def _show(self) -> None:
        try:
            import pygame
        except ImportError as error:
            raise ImportError(
                "render_mode 'human' needs pygame: run pip install '.[render]' in a clone of taciturn"
            ) from error
        image = picture(self.population, self.replica)
        if self._window is None:
            pygame.display.init()
            pygame.display.set_caption(self.population.name)
            self._window = pygame.display.set_mode((image.shape[1], image.shape[0]))
        pygame.event.pump()
        self._window.blit(pygame.surfarray.make_surface(image.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
