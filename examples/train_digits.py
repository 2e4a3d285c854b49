#!/usr/bin/env python3
r"""Trains a small vision transformer on scikit-learn's digits with stock DistributedDataParallel.

One process:  python examples/train_digits.py
Four ranks:   torchrun --standalone --nproc-per-node 4 examples/train_digits.py
Two hosts:    torchrun --nnodes 2 --node-rank R --master-addr HOST --nproc-per-node 2 \
                  examples/train_digits.py

The global batch is the same whatever the number of ranks and is split into equal shares, so that
the mean of the ranks' gradients is the gradient of the one process: losses must agree to rounding.
Rank 0
writes the results as JSON, to --results or else to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

LOSSES_KEPT = 20  # the first ones, which are compared
TEST_COUNT = 360  # of 1,797
WARM_UP_STEPS = 40


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each on normalised input and added to it."""

    def __init__(self, width: int, head_count: int) -> None:
        super().__init__()
        self.head_count = head_count
        self.attention_norm = nn.LayerNorm(width)
        # Without biases: a key's has a gradient of rounding noise, which Adam would scale up.
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        heads = self.query_key_value(self.attention_norm(tokens))
        query, key, value = heads.view(batch, count, 3, self.head_count, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.attention_out(mixed.transpose(1, 2).reshape(batch, count, width))
        return tokens + self.mlp(self.mlp_norm(tokens))


class DigitTransformer(nn.Module):
    """8x8 pixels as four patches of 4x4; the last layer's four tokens together are classified."""

    def __init__(self, width: int = 64, depth: int = 3, head_count: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.position = nn.Parameter(0.02 * torch.randn(4, width))
        self.blocks = nn.Sequential(*[Block(width, head_count) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(4 * width, 10)

    def forward(self, images: Tensor) -> Tensor:
        patches = images.view(-1, 2, 4, 2, 4).transpose(2, 3).reshape(-1, 4, 16)
        tokens = self.blocks(self.embed(patches) + self.position)
        return self.classify(self.norm(tokens).flatten(start_dim=1))


class Digits:
    """The data set on every rank, cut into training and test by the seed."""

    def __init__(self, seed: int) -> None:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images = torch.tensor(bunch.data, dtype=torch.float32) / 16.0
        labels = torch.tensor(bunch.target, dtype=torch.int64)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        test, train = order[:TEST_COUNT], order[TEST_COUNT:]
        self.test_images, self.test_labels = images[test], labels[test]
        self.train_images, self.train_labels = images[train], labels[train]

    def batches(self, epoch_count: int, batch_size: int, seed: int) -> Iterator[Tensor]:
        """Indices of the global batches, the same on every rank. Short last ones are left out."""
        generator = torch.Generator().manual_seed(seed)
        for _ in range(epoch_count):
            order = torch.randperm(len(self.train_labels), generator=generator)
            for start in range(0, len(order) - batch_size + 1, batch_size):
                yield order[start:start + batch_size]


class Trainer:
    """The model, its optimizer, and this rank's share of every batch."""

    def __init__(self, arguments: argparse.Namespace, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self.is_distributed = dist.is_initialized()
        self.learning_rate = arguments.learning_rate
        self.digits = Digits(arguments.seed)
        self.batches = list(
            self.digits.batches(arguments.epochs, arguments.global_batch, arguments.seed + 1))
        if arguments.steps:
            self.batches = self.batches[:arguments.steps]
        torch.manual_seed(arguments.seed + 2)
        model: nn.Module = DigitTransformer()
        self.parameter_count = sum(parameter.numel() for parameter in model.parameters())
        self.model = nn.parallel.DistributedDataParallel(model) if self.is_distributed else model
        # A large epsilon keeps gradients of rounding noise from becoming steps of full length.
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=self.learning_rate, eps=1e-6, weight_decay=0.01)

    def set_rate(self, step: int) -> None:
        """Rises in a straight line, then falls along a half cosine."""
        warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
        fall = 0.5 * (1.0 + math.cos(math.pi * step / len(self.batches)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * warm_up * fall

    def step(self, batch: Tensor) -> Tensor:
        share = batch[self.rank::self.world_size]
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.digits.train_images[share]),
                               self.digits.train_labels[share])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def global_mean(self, loss: Tensor) -> float:
        """Shares are equal, so the mean of the ranks' means is the mean over the batch."""
        if self.is_distributed:
            loss = loss.clone()
            dist.all_reduce(loss)
            loss /= self.world_size
        return loss.item()

    def train(self) -> tuple[list[float], list[float]]:
        """The first losses and the times, in ms, of the steps after them."""
        from tqdm import tqdm

        losses: list[float] = []
        times_ms: list[float] = []
        # None: shown on a terminal only.
        bar = tqdm(self.batches, unit="step", disable=None if self.rank == 0 else True)
        for number, batch in enumerate(bar):
            self.set_rate(number)
            start = time.perf_counter()
            loss = self.step(batch)
            if number < LOSSES_KEPT:
                losses.append(self.global_mean(loss))
            else:
                times_ms.append(1e3 * (time.perf_counter() - start))
        return losses, times_ms

    def test_accuracy(self) -> float:
        with torch.no_grad():
            # The bare model: one rank alone must not start a collective.
            model = self.model.module if self.is_distributed else self.model
            answers = model(self.digits.test_images).argmax(dim=1)
        return (answers == self.digits.test_labels).double().mean().item()

    def has_equal_weights(self) -> bool:
        """Whether all ranks hold the same bits."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        own = torch.tensor(list(digest.digest()), dtype=torch.uint8)
        everyone = [torch.empty_like(own) for _ in range(self.world_size)]
        if self.is_distributed:
            dist.all_gather(everyone, own)
        else:
            everyone = [own]
        return all(torch.equal(own, other) for other in everyone)

    def exposed_communication(self, pair_count: int) -> dict[str, float]:
        """Medians, in ms, of steps with and without communication, and their difference.

        Steps alternate in the order A B B A, and ranks start each together. A step without
        communication lets the ranks' weights drift apart, so this comes after everything else.
        """
        times_ms: dict[bool, list[float]] = {True: [], False: []}
        for pair in range(pair_count):
            for is_synchronised in (True, False) if pair % 2 == 0 else (False, True):
                context = contextlib.nullcontext() if is_synchronised else self.model.no_sync()
                batch = self.batches[pair % len(self.batches)]
                dist.barrier()
                start = time.perf_counter()
                with context:
                    self.step(batch)
                times_ms[is_synchronised].append(1e3 * (time.perf_counter() - start))
        medians = torch.tensor([statistics.median(times_ms[True]),
                                statistics.median(times_ms[False])])
        dist.all_reduce(medians)
        with_ms, without_ms = (medians / self.world_size).tolist()
        return {"with_ms": with_ms, "without_ms": without_ms, "exposed_ms": with_ms - without_ms}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["mccl", "gloo"], default="mccl",
                        help="of the process group; unused in one process without torchrun")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many; 0: all")
    parser.add_argument("--global-batch", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--exposed-pairs", type=int, default=40,
                        help="pairs of steps that measure exposed communication; 0: none")
    parser.add_argument("--results", help="file of the JSON results; default: standard output")
    arguments = parser.parse_args()
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if arguments.global_batch % world_size:
        parser.error(f"{arguments.global_batch} images cannot be split over {world_size} ranks")
    return arguments


def run(arguments: argparse.Namespace) -> dict[str, object]:
    is_distributed = dist.is_initialized()
    trainer = Trainer(arguments, dist.get_rank() if is_distributed else 0,
                      dist.get_world_size() if is_distributed else 1)
    start = time.perf_counter()
    losses, times_ms = trainer.train()
    results: dict[str, object] = {
        "backend": dist.get_backend() if is_distributed else "none",
        "world_size": trainer.world_size,
        "global_batch": arguments.global_batch,
        "steps": len(trainer.batches),
        "parameter_count": trainer.parameter_count,
        "train_s": time.perf_counter() - start,
        "losses": losses,
        "test_accuracy": trainer.test_accuracy(),
        "step_ms_median": statistics.median(times_ms) if times_ms else None,
        "has_equal_weights": trainer.has_equal_weights(),
        "exposed": None,
        "programs": [],
    }
    if is_distributed and arguments.backend == "mccl":
        import mccl

        results["programs"] = mccl.stats()["programs"]
    if is_distributed and arguments.exposed_pairs:
        results["exposed"] = trainer.exposed_communication(arguments.exposed_pairs)
    return results


def main() -> int:
    arguments = parse_arguments()
    # The ranks of one host share its cores.
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        if arguments.backend == "mccl":
            import mccl  # noqa: F401 (for its statistics; the back end is known without)
        dist.init_process_group(arguments.backend)
    results = run(arguments)
    if not dist.is_initialized() or dist.get_rank() == 0:
        text = json.dumps(results, indent=1)
        if arguments.results:
            with open(arguments.results, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        else:
            print(text)
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
