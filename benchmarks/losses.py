"""Time and memory of the objectives, as ratios against peers.

Claims, each printed with what was measured:
- CACR with five views (K=4) of 256 images and a queue of 65,536 keys, forward and backward: at least 2 times
  faster than the paper's Algorithm 3 written out plainly, with 10 times less memory; at most 1.6 times the three
  bare matrix products that any exact method needs; with bf16 products, where a processor has them, 4 times faster.
- In-batch CACR with five views: memory grows linearly with the images.
- In-batch CACR against the number of positives: with the paper's negatives (``same``) time grows like the views, with
  those of the authors' code (``cross_upper``) like the pairs of views.
- InfoNCE of 4,096 images: not slower than lightly's and pytorch-metric-learning's NT-Xent, with less memory.

Every contestant runs in a process of its own, so that the peak of its memory is its own; rounds are interleaved
and medians taken. Inputs are made before the measurement starts.

    python benchmarks/losses.py                 all of it, some minutes
    python benchmarks/losses.py --threads 1     processor time of one thread, for a machine that others use too
    ATEN_CPU_CAPABILITY=avx2 python benchmarks/losses.py --only queue       as on a processor without AVX-512
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch.nn.functional import normalize

VIEWS, IMAGES, QUEUE, DIM = 5, 256, 65_536, 128
IN_BATCH = (512, 1024, 2048, 4096, 8192)
POSITIVES = (1, 2, 4, 8)
NEGATIVES = {"same": lambda views: views, "cross_upper": lambda views: views * (views - 1) / 2}
"""Choice of negatives -> number of matrices of queries x keys, by the number of views."""
POSITIVES_IMAGES = 1024
MEMORY_LIMIT = 14 << 30
MEGABYTE = 1 << 20

Step = Callable[[], object]


def queue_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    q = normalize(torch.randn(VIEWS, IMAGES, DIM), dim=-1).requires_grad_()
    k = normalize(torch.randn(VIEWS, IMAGES, DIM), dim=-1)
    return q, k, normalize(torch.randn(QUEUE, DIM), dim=-1)


def cacr_queue(bf16: bool = False) -> Step:
    from cacr.losses import CACRLoss, queued

    q, k, queue = queue_inputs()
    loss = CACRLoss(pos_grad=False)

    def step() -> torch.Tensor:
        q.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            value = loss(queued(q, k, queue))
        value.backward()
        return value.detach()

    return step


def algorithm_3() -> Step:
    """The paper's pseudo-code, in-batch negatives included."""
    q_all, k_all, queue = queue_inputs()
    t_pos, t_neg = 1.0, 2.0

    def step() -> torch.Tensor:
        q_all.grad = None
        attraction = repulsion = torch.zeros(())
        for v in range(VIEWS):
            q = q_all[v]
            others = [w for w in range(VIEWS) if w != v]
            cost_pos = (q - k_all[others]).norm(p=2, dim=-1).pow(2).transpose(1, 0)
            with torch.no_grad():
                weights_pos = torch.softmax(cost_pos.mul(t_pos), dim=1)
            attraction = attraction + (cost_pos * weights_pos).sum(1).mean()
            cost_neg = 2 - 2 * torch.mm(q, queue.T)
            off = ~torch.eye(IMAGES, dtype=torch.bool)
            inner = torch.norm(q[:, None] - q, dim=-1).pow(2).masked_select(off)
            cost_neg = torch.cat([cost_neg, inner.view(IMAGES, IMAGES - 1)], dim=1)
            weights_neg = torch.softmax(cost_neg.mul(-t_neg), dim=1)
            repulsion = repulsion + (cost_neg.mul(-1.0) * weights_neg).sum(1).mean()
        value = attraction / VIEWS + repulsion / VIEWS
        value.backward()
        return value.detach()

    return step


def products() -> Step:
    """One forward and two backward products, into memory that is already there."""
    q, _, queue = queue_inputs()
    q = q.detach().reshape(-1, DIM)
    s, grad_q, grad_k = torch.zeros(len(q), QUEUE), torch.zeros_like(q), torch.zeros_like(queue)

    def step() -> None:
        torch.mm(q, queue.T, out=s)
        torch.mm(s, queue, out=grad_q)
        torch.mm(s.T, q, out=grad_k)

    return step


def cacr_in_batch(images: int, views: int = VIEWS, negatives: str = "same") -> Step:
    from cacr.losses import CACRLoss

    torch.manual_seed(0)
    z = torch.randn(views, images, DIM, requires_grad=True)
    loss = CACRLoss(negatives=negatives)

    def step() -> None:
        z.grad = None
        loss(z).backward()

    return step


def nt_xent(peer: str, images: int) -> Step:
    torch.manual_seed(0)
    z = torch.randn(2, images, DIM, requires_grad=True)
    if peer == "cacr":
        from cacr.losses import InfoNCELoss

        ours = InfoNCELoss(0.19)
        compute = lambda: ours(z)  # noqa: E731
    elif peer == "lightly":
        from lightly.loss import NTXentLoss

        theirs = NTXentLoss(temperature=0.19)
        compute = lambda: theirs(z[0], z[1])  # noqa: E731
    else:
        from pytorch_metric_learning.losses import NTXentLoss as MetricLearning

        labelled = MetricLearning(temperature=0.19)
        labels = torch.arange(images).repeat(2)
        compute = lambda: labelled(z.flatten(0, 1), labels)  # noqa: E731

    def step() -> torch.Tensor:
        z.grad = None
        value = compute()
        value.backward()
        return value.detach()

    return step


def contestants() -> dict[str, Callable[[], Step]]:
    runs: dict[str, Callable[[], Step]] = {
        "cacr": cacr_queue,
        "cacr-bf16": lambda: cacr_queue(bf16=True),
        "algorithm-3": algorithm_3,
        "products": products,
    }
    for images in IN_BATCH:
        runs[f"in-batch-{images}"] = lambda images=images: cacr_in_batch(images)
    for k, negatives in product(POSITIVES, NEGATIVES):
        runs[f"{negatives}-{k}"] = partial(cacr_in_batch, POSITIVES_IMAGES, k + 1, negatives)
    for peer in ("cacr", "lightly", "metric-learning"):
        for images in (256, 4096):
            runs[f"nt-xent-{images}-{peer}"] = lambda peer=peer, images=images: nt_xent(peer, images)
    return runs


def memory(field: str) -> int:
    """``VmRSS`` (now) or ``VmHWM`` (peak) of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def run(name: str, repeats: int, threads: int) -> None:
    """One contestant in this process: prints its median time and the peak of memory above its inputs."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    step = contestants()[name]()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    try:
        value = step()
        times = []
        for _ in range(repeats):
            start = clock()
            step()
            times.append(clock() - start)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        print(json.dumps({"failed": f"needs more than {MEMORY_LIMIT >> 30} GB"}))
        return
    print(
        json.dumps(
            {
                "seconds": statistics.median(times),
                "bytes": memory("VmHWM") - before,
                "value": value.item() if isinstance(value, torch.Tensor) else None,
            }
        )
    )


def measure(names: list[str], args: argparse.Namespace, repeats: int = 3) -> dict[str, dict[str, float]]:
    """Medians over interleaved rounds; a contestant that ran out of memory has none."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(args.rounds):
        for name in names:
            options = ["--run", name, "--repeats", str(repeats), "--threads", str(args.threads)]
            done = subprocess.run(
                [sys.executable, __file__, *options], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    medians: dict[str, dict[str, float]] = {}
    for name, results in found.items():
        if any("failed" in result for result in results):
            print(f"  {name:32s} {results[0].get('failed')}")
            continue
        medians[name] = {key: statistics.median(r[key] or 0 for r in results) for key in results[0]}
        seconds, size = medians[name]["seconds"], medians[name]["bytes"] / MEGABYTE
        print(f"  {name:32s} {seconds * 1e3:9.1f} ms {size:9.1f} MB")
    return medians


def has_bf16() -> bool:
    """Whether the processor multiplies bf16 matrices itself."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def claim(text: str, value: float, bound: float, at_most: bool = False) -> None:
    met = value <= bound if at_most else value >= bound
    print(
        f"  {'met ' if met else 'MISSED'} {text}: {value:.3g} ({'at most' if at_most else 'at least'} {bound:g})"
    )


def queue_section(args: argparse.Namespace) -> None:
    print(f"CACR, {VIEWS} views x {IMAGES} images, queue {QUEUE:,}, dim {DIM}, forward and backward")
    bf16 = has_bf16()
    names = ["cacr", "algorithm-3", "products"] + (["cacr-bf16"] if bf16 else [])
    found = measure(names, args)
    ours, plain, bare = found["cacr"], found["algorithm-3"], found["products"]
    assert abs(ours["value"] - plain["value"]) < 1e-5, "the two disagree"
    claim("times faster than Algorithm 3", plain["seconds"] / ours["seconds"], 2)
    claim("times less memory than Algorithm 3", plain["bytes"] / ours["bytes"], 10)
    claim("times the bare products", ours["seconds"] / bare["seconds"], 1.6, at_most=True)
    if bf16:
        assert abs(found["cacr-bf16"]["value"] - plain["value"]) < 0.02, "beyond the error of bf16"
        claim("times faster with bf16 products", plain["seconds"] / found["cacr-bf16"]["seconds"], 4)
    else:
        print("  bf16 products not measured: this processor has no bf16 instructions (avx512_bf16, amx_bf16)")


def in_batch_section(args: argparse.Namespace) -> None:
    print(f"CACR in the batch, {VIEWS} views, same-view negatives: memory must grow like the images")
    found = measure([f"in-batch-{images}" for images in IN_BATCH], args, 1)
    sizes = [found[f"in-batch-{images}"]["bytes"] for images in IN_BATCH]
    for images, size in zip(IN_BATCH, sizes, strict=True):
        print(f"  {images:6d} images: {size / images / 1024:8.1f} KB an image")
    growth = sizes[-1] / sizes[-3]
    claim(
        f"times the memory for 4 times the images ({IN_BATCH[-3]} to {IN_BATCH[-1]})", growth, 5, at_most=True
    )


def positives_section(args: argparse.Namespace) -> None:
    print(f"CACR in the batch, {POSITIVES_IMAGES} images: time against the number of positives")
    for negatives, matrices in NEGATIVES.items():
        found = measure([f"{negatives}-{k}" for k in POSITIVES], args)
        first, last = (found[f"{negatives}-{k}"]["seconds"] / matrices(k + 1) for k in (2, POSITIVES[-1]))
        claim(
            f"times the time per matrix, {negatives}, from 2 to {POSITIVES[-1]} positives",
            last / first,
            1.5,
            at_most=True,
        )


def nt_xent_section(args: argparse.Namespace) -> None:
    for images in (4096, 256):
        print(f"InfoNCE (NT-Xent), 2 views x {images} images")
        names = [f"nt-xent-{images}-{peer}" for peer in ("cacr", "lightly", "metric-learning")]
        found = measure(names, args)
        ours = found[names[0]]
        for name in names[1:]:
            if name in found:
                assert abs(ours["value"] - found[name]["value"]) < 1e-3, "the two disagree"
                claim(f"times the time of {name}", ours["seconds"] / found[name]["seconds"], 1, at_most=True)
                claim(f"times the memory of {name}", ours["bytes"] / found[name]["bytes"], 1, at_most=True)


SECTIONS = {
    "queue": queue_section,
    "in-batch": in_batch_section,
    "positives": positives_section,
    "nt-xent": nt_xent_section,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", choices=list(SECTIONS))
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.run, args.repeats, args.threads)
        return
    print(f"{os.cpu_count()} processors, {args.threads} threads, torch {torch.__version__}")
    for name, section in SECTIONS.items():
        if args.only in (None, name):
            section(args)


if __name__ == "__main__":
    main()
