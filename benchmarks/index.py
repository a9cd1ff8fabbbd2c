"""Neighbours by the approximate index of ``cacr select`` against exact search: recall, and queries per second.

Vectors are drawn around 1,000 random directions, which is kinder than uniform noise and harsher than photos. Recall@10
is the share of the ten exact neighbours that the index finds. Both use the same threads, in the same process.

    python benchmarks/index.py                       # 200,000 vectors
    python benchmarks/index.py --vectors 20000 --dim 64
"""

import argparse
import time

import torch
from torch.nn.functional import normalize

from cacr.features.index import Neighbours

CENTRES, NEIGHBOURS, SPREAD = 1000, 10, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=2_000, help="of those vectors, drawn")
    options = parser.parse_args()
    draw = torch.Generator().manual_seed(0)
    centres = normalize(torch.randn(CENTRES, options.dim, generator=draw), dim=1)
    which = torch.randint(CENTRES, (options.vectors,), generator=draw)
    noise = SPREAD * torch.randn(options.vectors, options.dim, generator=draw) / options.dim**0.5
    vectors = normalize(centres[which] + noise, dim=1)
    queries = vectors[torch.randperm(options.vectors, generator=draw)[: options.queries]]

    exact = Neighbours(vectors, exact_up_to=options.vectors)
    started = time.perf_counter()
    index = Neighbours(vectors, exact_up_to=0)
    built = time.perf_counter() - started
    seconds, found = {}, {}
    for name, way in (("exact", exact), ("index", index)):
        started = time.perf_counter()
        parts = [way.nearest(some, NEIGHBOURS)[1] for some in torch.split(queries, 256)]
        seconds[name], found[name] = time.perf_counter() - started, torch.cat(parts)
    one = time.perf_counter()
    exact.nearest(queries[:1], NEIGHBOURS)
    one = time.perf_counter() - one

    hits = (found["index"][:, :, None] == found["exact"][:, None, :]).any(dim=2)
    count = len(queries)
    print(f"{options.vectors:,} vectors of dimension {options.dim}, {torch.get_num_threads()} threads")
    print(f"exact: {count / seconds['exact']:,.0f} queries/s")
    print(
        f"index: {count / seconds['index']:,.0f} queries/s, {seconds['exact'] / seconds['index']:.1f} times as many"
    )
    print(f"recall@{NEIGHBOURS} of the index: {hits.float().mean():.4f}")
    print(f"building it: {built:.1f} s; one exact query alone: {1000 * one:.0f} ms")
    every = options.vectors
    whole = {name: every * value / count for name, value in seconds.items()}
    print(
        f"all {every:,} queries: exact {whole['exact']:,.0f} s, index {built + whole['index']:,.0f} s with building"
    )


if __name__ == "__main__":
    main()
