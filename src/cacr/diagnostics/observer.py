"""The observer of a run: measures the model on held-out images, gives a verdict, and stores the results."""

from collections.abc import Mapping

from rich.console import Console

from cacr.data import Source
from cacr.diagnostics.embedding import HeldOutImages
from cacr.diagnostics.measurement import how_measured, measure
from cacr.diagnostics.selection import drop_best_after, is_best
from cacr.diagnostics.snapshots import draw_pictures, is_due
from cacr.diagnostics.trivial import can_shrink, trivial_loss
from cacr.diagnostics.verdict import STOPPING, judge, judge_end
from cacr.losses.engine.pairs import unit
from cacr.runs import scales
from cacr.runs.rows import GrowingRows
from cacr.runs.run import Run
from cacr.runs.snapshots import Snapshot, drop_snapshots_after, write_pictures, write_snapshot
from cacr.runs.verdict import Verdict, in_words, write_verdict
from cacr.training.building.job import Position, Training
from cacr.training.loop.observer import Seen


def observe(job: Training, source: Source, console: Console) -> "RunObserver":
    """The observer of a run (see :class:`cacr.training.loop.observer.Observer`)."""
    return RunObserver(job, source, console)


class RunObserver:
    """Measures the model, and writes verdict and snapshots into the run folder.

    Every process embeds its share of the images. The first one computes the metrics and decides; the others learn
    whether to stop.

    Args:
        job: the run.
        source: images to measure on.
        console: where a new verdict is printed.
    """

    def __init__(self, job: Training, source: Source, console: Console) -> None:
        self._job, self._console = job, console
        self._images = HeldOutImages(job, source)
        self._trivial_loss = trivial_loss(
            job.method, images=job.settings.batch_size, views=job.settings.views
        )
        named = job.settings.objective, job.settings.objective_options
        self._t_pos, self._t_neg = scales.t_pos(*named), scales.t_neg(*named)
        self._rows = GrowingRows(job.run.metrics)
        self._told: str = "healthy"
        self._epochs_kept: list[float] = []
        self._batch = 0
        if job.fabric.is_global_zero:
            self._remember()
            pictures = draw_pictures(self._images)
            self._batch = len(pictures.first)
            write_pictures(job.run.diagnostics, pictures)
            self._record(self._images.count)

    def _remember(self) -> None:
        """Load the earlier measurements of a resumed run, and drop those that it will repeat."""
        folder, rows = self._job.run, self._rows.read()
        step = int(rows[-1]["step"]) if rows else -1
        drop_snapshots_after(folder.diagnostics, step)
        drop_best_after(folder, step)
        run = Run.open(folder.path)
        earlier = [past.verdict for past in run.verdict.history if past.step <= step] if run.verdict else []
        self._told = earlier[-1] if earlier else "healthy"
        self._epochs_kept = [snapshot.epoch for snapshot in run.snapshots]

    def _record(self, images: int) -> None:
        """Store in the run folder how everything is measured; ``held_out.json`` names the images."""
        how = {
            "images": images,
            "views": len(self._images.views.augmentations[self._images.random]),
            "every_epochs": self._job.settings.measure_every_epochs,
            **how_measured(t_pos=self._t_pos, t_neg=self._t_neg),
        }
        self._job.run.write_how(how)

    def due(self, position: Position) -> bool:
        """Whether to measure after this step."""
        settings = self._job.settings
        if every := settings.measure_every_steps:
            return position.step % every == 0
        return position.epoch_ended and position.epoch % settings.measure_every_epochs == 0

    def look(self, step: int, epoch: float, figures: Mapping[str, float]) -> Seen:
        """Measure and give a verdict (see :class:`cacr.training.loop.observer.Observer`)."""
        embedded = self._images.embed()
        # Pixels do not change: they are measured once, before the first step.
        pixels = self._images.pixels() if step == 0 else None
        seen = Seen({}, "", False)
        if self._job.fabric.is_global_zero:
            z = embedded.z
            measured = measure(embedded, pixels, t_pos=self._t_pos, t_neg=self._t_neg)
            if self._trivial_loss is not None:
                measured["trivial_loss"] = self._trivial_loss
            self._keep(Snapshot(step, epoch, unit(z[:, : self._batch])))
            rows = [*self._rows.read(), {"step": step, "epoch": epoch, **figures, **measured}]
            verdict = judge(
                rows,
                images=z.shape[1],
                dim=z.shape[2],
                trivial_loss=self._trivial_loss,
                can_shrink=can_shrink(self._job.method),
            )
            stop = verdict is not None and self._tell(verdict)
            best = self._job.settings.keep_best and is_best(self._job.run, rows)
            seen = Seen(measured, _short(measured), stop, best)
        return seen._replace(stop=bool(self._job.fabric.broadcast(seen.stop)))

    def diverged(self, step: int, epoch: float, what: str) -> None:
        """Called if the run ends here (see :class:`cacr.training.loop.observer.Observer`)."""
        if self._job.fabric.is_global_zero:
            write_verdict(self._job.run.verdict, judge_end(what, step, epoch))

    def _tell(self, verdict: Verdict) -> bool:
        """Store a verdict, print it if it has changed, and return whether the run should stop."""
        stored = write_verdict(self._job.run.verdict, verdict)
        stop = verdict.verdict in STOPPING and self._job.settings.on_collapse == "stop"
        if verdict.verdict != self._told:
            self._console.print(in_words(stored), soft_wrap=True)
            if verdict.verdict in STOPPING and not stop:
                self._console.print("  (with --on-collapse stop, the run would end here)")
            self._told = verdict.verdict
        return stop

    def _keep(self, snapshot: Snapshot) -> None:
        job = self._job
        # Rounded like the epochs of a row (``Job.epochs``): otherwise the last step can seem to be before the end.
        length = round(job.total_steps * job.settings.accumulate / job.loader.batches_per_epoch, 4)
        if is_due(snapshot.epoch, min(length, job.settings.epochs), self._epochs_kept):
            write_snapshot(self._job.run.diagnostics, snapshot)
            self._epochs_kept.append(snapshot.epoch)


def _short(measured: Mapping[str, float]) -> str:
    """The metrics for the progress bar."""
    knn = f"  kNN {100 * measured['knn']:.1f} %" if "knn" in measured else ""
    return f"rank {measured['effective_rank']:.0f}{knn}"
