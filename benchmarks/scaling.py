"""Memory, traffic and time of a step per process, against the formulas of docs/explanation/cost-of-a-step.md.

Claims, each printed with what was measured:
- ring: the memory of the loss is the same for 4 and for 8 processes with the same number of images each (with two
  of them one block fewer is under way);
- gather: it grows with the number of processes;
- the bytes that a process sends are those of the formulas;
- encode_chunk: the peak of memory is that of a chunk, not of the batch.

Processes talk over the loopback interface, whose counters tell what was sent; each has one thread. The images of a
process stay the same as processes are added.

    python benchmarks/scaling.py                  all of it, some minutes
    python benchmarks/scaling.py --images 256     smaller
    python benchmarks/scaling.py --plan           nothing is measured: what the formulas say for many GPUs
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist

VIEWS, DIM = 2, 512
WORLDS = {"gather": (1, 2, 4), "ring": (1, 2, 4, 8)}
WEIGHTS = 4 << 20
"""Numbers in the gradient of a pretended encoder, whose all-reduce is measured too."""
CHUNK_IMAGES, CHUNKS, SIZE = 128, (None, 32, 8), 64
GATHER_BLOCKS, RING_BLOCKS = 5, 11
"""Peak of memory in the loss, in blocks of a process's embeddings: for each process, and in all."""
ROUNDS = 3
MEGABYTE = 1 << 20


def status(field: str) -> int:
    """A line of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024


def forget_peak() -> int:
    """Make the peak of memory start anew; returns what is in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def loopback() -> int:
    """Bytes sent over the loopback interface by anybody so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("lo:"))


def exchange_worker(folder: str, rank: int, world: int, exchange: str, images: int, objective: str) -> None:
    """One of several processes; the first prints what a step of the loss costs each of them."""
    from cacr.frameworks import exchanged
    from cacr.losses import OBJECTIVES, in_batch

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    torch.manual_seed(rank)
    loss = OBJECTIVES[objective]()

    def step(z: torch.Tensor) -> None:
        (shared,), ring = exchanged(exchange, z)  # type: ignore[arg-type]
        loss(in_batch(shared, loss.negatives, ring=ring)).backward()
        z.grad = None

    step(torch.randn(VIEWS, 8, DIM, requires_grad=True))
    z = torch.randn(VIEWS, images, DIM, requires_grad=True)
    found = []
    for _ in range(ROUNDS):
        dist.barrier()
        before, sent, started = forget_peak(), loopback(), time.process_time()
        step(z)
        dist.barrier()
        found.append((status("VmHWM") - before, loopback() - sent, time.process_time() - started))
    memory, sent, seconds = (min(values) for values in zip(*found, strict=True))
    if rank == 0:
        print(json.dumps({"memory": memory, "sent": sent / world, "seconds": seconds}))
    dist.destroy_process_group()


def gradient_worker(folder: str, rank: int, world: int) -> None:
    """The all-reduce of an encoder's gradients, which every step needs besides."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    gradient = torch.zeros(WEIGHTS)
    found = []
    for _ in range(ROUNDS):
        dist.barrier()
        sent = loopback()
        dist.all_reduce(gradient)
        dist.barrier()
        found.append(loopback() - sent)
    if rank == 0:
        print(json.dumps({"sent": min(found) / world}))
    dist.destroy_process_group()


def chunk_worker(chunk: int | None) -> None:
    """One process, one step of a convolutional encoder without batch statistics; prints peak and time."""
    from torch import nn

    from cacr.encoders import Encoder, EncoderInfo
    from cacr.frameworks import InBatch
    from cacr.losses import CACRLoss

    torch.set_num_threads(1)
    torch.manual_seed(0)
    widths = (3, 32, 64, 64)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(), nn.MaxPool2d(2)]
    backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    method = InBatch(
        Encoder(backbone, EncoderInfo("plain", SIZE, 64)), nn.Linear(64, DIM), CACRLoss()
    ).train()
    views = [torch.randn(VIEWS, CHUNK_IMAGES, 3, SIZE, SIZE)]
    method.encode_chunk = chunk and 2
    method([views[0][:, :4]])["loss"].backward()  # the first call loads what torch needs
    method.encode_chunk = chunk
    before, started = forget_peak(), time.process_time()
    loss = method(views)["loss"]
    loss.backward()
    seconds = time.process_time() - started
    gradient = torch.cat([p.grad.flatten() for p in method.parameters() if p.grad is not None]).norm()
    peak = status("VmHWM") - before
    print(json.dumps({"memory": peak, "seconds": seconds, "loss": loss.item(), "gradient": gradient.item()}))


def run(world: int, *arguments: object) -> dict[str, float]:
    """Run this script again in ``world`` processes; returns what the first printed."""
    # Large tensors come from the system and go back to it, so that memory in use is memory held.
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--worker", json.dumps([folder, rank, world, *arguments])],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a process failed")
    result: dict[str, float] = json.loads(outputs[0])
    return result


def worker(folder: str, rank: int, world: int, kind: str, *arguments: object) -> None:
    if kind == "exchange":
        exchange_worker(folder, rank, world, *arguments)  # type: ignore[arg-type]
    elif kind == "gradient":
        gradient_worker(folder, rank, world)
    else:
        chunk_worker(*arguments)  # type: ignore[arg-type]


def claim(text: str, holds: bool) -> None:
    print(f"    {'holds' if holds else 'DOES NOT HOLD'}: {text}")


def expected_traffic(exchange: str, world: int, block: int) -> float:
    """Bytes that a process sends for the loss: one all-gather, or keys twice and their gradients home."""
    return (
        (world - 1) * block
        if exchange == "gather"
        else (2 * (world - 1) + (world if world > 1 else 0)) * block
    )


def similarity_operations(exchange: str, world: int, images: int, views: int, dim: int) -> float:
    """Operations of a process for same-view negatives: one product in the forward pass, three in the backward."""
    queries = world * images if exchange == "gather" else images
    return 8.0 * dim * views * queries * world * images


def plan() -> None:
    """What the formulas say for clusters; bandwidth and speed are assumptions, not measurements."""
    bandwidth, speed, data = 25e9, 50e12, 1e9
    weights = {"ResNet-50 with head": 28e6, "ViT-B/16 with head": 90e6}
    print(
        f"assumed for a GPU: {bandwidth / 1e9:.0f} GB/s to others, {speed / 1e12:.0f} T operations/s in products"
    )
    for views, images, dim in ((2, 64, 256), (5, 256, 128)):
        block = 4 * views * images * dim
        print(
            f"\n{views} views of {images} images a GPU, dim {dim}; a block is {block / 1e6:.2f} MB. Per GPU and step:"
        )
        print("    GPUs   global batch  steps for 1e9   exchange   memory      sent            products")
        for world in (8, 64, 1024):
            for exchange in WORLDS:
                sent = expected_traffic(exchange, world, block)
                memory = (GATHER_BLOCKS * world if exchange == "gather" else RING_BLOCKS) * block
                operations = similarity_operations(exchange, world, images, views, dim)
                print(
                    f"    {world:>4} {world * images:>14,} {data / (world * images):>14,.0f}   {exchange:<8}"
                    f" {memory / 1e6:>8,.0f} MB {sent / 1e6:>7,.0f} MB {1e3 * sent / bandwidth:>5.1f} ms"
                    f" {operations / 1e9:>9,.0f} G {1e3 * operations / speed:>6.1f} ms"
                )
    for name, count in weights.items():
        sent = 2 * 4 * count
        print(f"all-reduce of the gradients, {name}: {sent / 1e6:,.0f} MB, {1e3 * sent / bandwidth:.0f} ms")


def exchanges(images: int, objective: str) -> None:
    block = 4 * VIEWS * images * DIM
    print(
        f"\nloss of {objective}: {VIEWS} views of {images} images a process, dim {DIM}; "
        f"a block is {block / MEGABYTE:.1f} MB. Per process:"
    )
    print("    exchange  processes   memory  in blocks      sent   formula  CPU s")
    memory = {}
    for exchange, worlds in WORLDS.items():
        for world in worlds:
            found = run(world, "exchange", exchange, images, objective)
            formula = expected_traffic(exchange, world, block)
            memory[exchange, world] = found["memory"] / block
            print(
                f"    {exchange:<8} {world:>10} {found['memory'] / MEGABYTE:>7.1f}M {found['memory'] / block:>10.1f}"
                f" {found['sent'] / MEGABYTE:>8.2f}M {formula / MEGABYTE:>8.2f}M {found['seconds']:>8.2f}",
                flush=True,
            )
            if world > 1:
                claim("what is sent is within 5 % of the formula", abs(found["sent"] / formula - 1) < 0.05)
    claim(
        "ring: memory for 8 processes is at most 1.05 times that for 4",
        memory["ring", 8] <= 1.05 * memory["ring", 4],
    )
    slope = (memory["gather", 4] - memory["gather", 2]) / 2
    print(f"    gather: {slope:.1f} blocks more for each further process")


def gradients() -> None:
    print(f"\nall-reduce of the gradients of {WEIGHTS / 1e6:.1f} million weights. Per process:")
    for world in WORLDS["gather"][1:]:
        found, formula = run(world, "gradient"), 2 * (world - 1) / world * 4 * WEIGHTS
        print(
            f"    {world} processes: sent {found['sent'] / MEGABYTE:.1f}M, formula {formula / MEGABYTE:.1f}M"
        )
        claim("within 5 % of the formula", abs(found["sent"] / formula - 1) < 0.05)


def chunks() -> None:
    print(
        f"\none process, {VIEWS} views of {CHUNK_IMAGES} images of {SIZE} pixels, convolutions without batch norm:"
    )
    whole = None
    for chunk in CHUNKS:
        found = run(1, "chunk", chunk)
        whole = whole or found
        print(
            f"    encode_chunk {chunk or 'off':>4}: peak {found['memory'] / MEGABYTE:7.1f}M "
            f"({found['memory'] / whole['memory']:.2f}), {found['seconds']:.2f} CPU s "
            f"({found['seconds'] / whole['seconds']:.2f}), loss {found['loss']:.6f}, "
            f"norm of the gradient {found['gradient']:.6f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=512, help="of each process")
    parser.add_argument("--plan", action="store_true", help="print what the formulas say, measure nothing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*json.loads(options.worker))
        return
    if options.plan:
        plan()
        return
    for objective in ("cacr", "info_nce"):
        exchanges(options.images, objective)
    gradients()
    chunks()


if __name__ == "__main__":
    main()
