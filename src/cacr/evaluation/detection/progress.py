"""Show the progress of detector training: a bar on a terminal, lines otherwise, nothing in other processes."""

from cacr.data.prepare import Progress
from cacr.distributed import rank
from cacr.terminal import CleanConsole
from cacr.training.loop.progress import TrainingProgress


class DetectorProgress:
    """Shows the number of steps, the loss and the time left.

    Args:
        steps: Number of steps of the whole training.
        batch_size: Images per step.
        images: Number of training images.
        bar: Shows a bar on a terminal.
    """

    def __init__(self, steps: int, batch_size: int, images: int, bar: Progress | None) -> None:
        self._steps, self._batch, self._images, self._bar = steps, batch_size, images, bar
        console = CleanConsole(stderr=True)
        enabled = rank() == 0 and bar is not None and not console.is_terminal
        self._lines = TrainingProgress(
            console,
            epochs=self._epoch(steps),
            total_steps=steps,
            step=0,
            epoch=0,
            enabled=enabled,
        )

    def __call__(self, step: int, loss: float) -> None:
        """Call this after each step."""
        if self._bar is not None:
            self._bar(step, self._steps)
        self._lines.pace.step(self._batch)
        self._lines.update(step=step, epoch=self._epoch(step), loss=loss)

    def _epoch(self, step: int) -> int:
        return -(-step * self._batch // self._images)
