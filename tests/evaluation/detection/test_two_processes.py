"""Two processes that train one detector: the step of the mean of their gradients."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from cacr.data.annotated import AnnotatedSource
from cacr.encoders import save_encoder
from cacr.evaluation import evaluate_run
from cacr.evaluation.detection.batches import Picture, training_batches
from cacr.evaluation.detection.training import DetectorTraining, losses_of, make_optimizer, train_detector
from cacr.features.machine import Machine
from cacr.randomness import mixed_seed
from tests.data.annotating import coco_set
from tests.evaluation.detection.making import TINY, encoder_of, shapes_source, tiny_detector

SEED = 5


def _job(source: AnnotatedSource, folder: Path) -> DetectorTraining:
    # Statistics are held: what each process has learned then depends on its own images alone.
    detector = tiny_detector(batch_norm="frozen")
    recipe = replace(TINY, steps=1, warmup=0)
    return DetectorTraining(detector, recipe, source, False, SEED, Machine(), folder, save_seconds=1e6)


def _train(rank: int, place: str) -> None:
    folder = Path(place)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    job = _job(shapes_source(folder / "shapes"), folder / "checkpoints")
    train_detector(job)
    torch.save(job.detector.state_dict(), folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.trains
def test_a_step_of_two_processes_is_that_of_the_mean_of_their_gradients(tmp_path: Path) -> None:
    coco_set(tmp_path / "shapes", 5)
    mp.spawn(_train, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    source = shapes_source(tmp_path / "shapes")
    gradients: list[dict[str, torch.Tensor]] = []
    for rank in range(2):
        job = _job(source, tmp_path / "none")
        (batch,) = training_batches(
            source,
            batch_size=2,
            seed=SEED,
            steps=range(1),
            share=slice(rank, None, 2),
            masks=False,
            workers=0,
        )
        torch.manual_seed(mixed_seed("detector", SEED, 0, rank))
        loss = losses_of(_trained(job), [item for item in batch if isinstance(item, Picture)])
        assert loss is not None and len(batch) == 1
        torch.autograd.backward(loss)
        gradients.append({name: p.grad for name, p in job.detector.named_parameters() if p.grad is not None})
    job = _trained(_job(source, tmp_path / "none"))
    optimizer = make_optimizer(job.detector, job.recipe)
    for name, parameter in job.detector.named_parameters():
        if parameter.requires_grad:
            parameter.grad = sum(g.get(name, torch.zeros_like(parameter)) for g in gradients) / 2  # type: ignore[assignment]
    optimizer.step()
    for name, value in job.detector.state_dict().items():
        torch.testing.assert_close(first[name], value)


@pytest.mark.slow
@pytest.mark.trains
def test_two_processes_look_at_every_test_image(tmp_path: Path) -> None:
    encoder = encoder_of()
    save_encoder(tmp_path / "run", encoder, encoder.info)
    coco_set(tmp_path / "shapes" / "train", 6)
    coco_set(tmp_path / "shapes" / "test", 3, seed=1)
    options = {"steps": 2, "batch_size": 2, "sizes": (32,), "test_size": 32, "proposals": 8, "precise": 4}
    values = {
        "data": f"coco:{tmp_path / 'shapes'}",
        "protocol": "detection",
        "workers": 0,
        "accelerator": "cpu",
    }
    values |= {"baselines": (), "options": options, "devices": 2}
    (first,), (second,) = (evaluate_run(tmp_path / "run", values) for _ in range(2))
    assert first == second and first.counts["test_images"] == 3
    assert (tmp_path / "run" / "evaluation" / first.details["pictures"]).exists()
    assert not list((tmp_path / "run" / "evaluation").glob("detector-*"))


def _trained(job: DetectorTraining) -> DetectorTraining:
    job.detector.train()
    return job
