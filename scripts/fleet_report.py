"""Rows of Markdown from what scripts/fleet.sh has measured.

goodput FILE...                                      bytes per second of iperf3 --bidir
bandwidth_head                                       the head of the table below
bandwidth TITLE BEFORE AFTER TOGETHER RANKS          busbw against iperf3
latency DELAY_US NAME FLOOR_NAME                     times against rounds of the delay
soak TITLE RANKS                                     results and processor time

RANKS, NAME.two, NAME.all and NAME.ring are what rank 0 of bench/fleet_rank.cc printed.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import sys

# Processor seconds per gigabyte sent, from the MCCL paper: 0.31 of a core for 10 minutes, and
# 0.34 TB, which is what a ring of 24 sends in the paper's 17,784 calls when each is of 10 MB.
PAPER_SECONDS_PER_GB = 0.31 * 600 / 340


def read_json(path: str) -> dict:
    return json.loads(pathlib.Path(path).read_text())


def read_number(path: str) -> float:
    return float(pathlib.Path(path).read_text())


def print_goodput(paths: list[str]) -> None:
    """The mean of both directions over all pairs, as the receivers counted."""
    rates = []
    for path in paths:
        end = read_json(path)["end"]
        for key in ("sum_received", "sum_received_bidir_reverse"):
            rates.append(end[key]["bits_per_second"] / 8)
    print(sum(rates) / len(rates))


def busy_percent(path: str) -> float:
    """The share of all cores' time that was not idle while the ranks ran."""
    before, after = ([int(word) for word in pathlib.Path(path + suffix).read_text().split()[1:]]
                     for suffix in (".before", ".after"))
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return 100 * (1 - (spent[3] + spent[4]) / max(sum(spent[:8]), 1))


def size_text(count: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def cable_share(title: str, busbw: float) -> str:
    """Against what tbf lets through: it counts 14 bytes of Ethernet for each packet, TCP/IP 52."""
    found = re.search(r"([0-9]+) Mb/s, MTU ([0-9]+)", title)
    if not found:
        return "-"
    rate, mtu = (int(word) for word in found.groups())
    return f"{busbw / (rate / 8 * (mtu - 52) / (mtu + 14)):.4f}"


def short(program: str) -> str:
    return program.removeprefix("all_reduce_")


def seconds_per_gb(row: dict) -> float:
    return row["cpu_seconds_per_rank"] / (row["sent_bytes_per_rank"] / 1e9)


def print_bandwidth_head() -> None:
    print("| network | size | program | iperf3 before | after | all pairs | busbw MB/s | "
          "of iperf3 | of the cable | CPU s/GB | cores in use | wrong |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")


def print_bandwidth(title: str, before: str, after: str, together: str, ranks: str) -> None:
    iperf = [read_number(path) / 1e6 for path in (before, after, together)]
    for row in read_json(ranks)["sizes"]:
        busbw = row["busbw_bytes_per_second"] / 1e6
        print(f"| {title} | {size_text(row['bytes'])} | {short(row['program'])} | {iperf[0]:.2f} | "
              f"{iperf[1]:.2f} | {iperf[2]:.2f} | {busbw:.2f} | "
              f"{busbw / max(iperf[0], iperf[1]):.4f} | {cable_share(title, busbw)} | "
              f"{seconds_per_gb(row):.2f} | "
              f"{busy_percent(ranks):.0f} % | {row['wrong_elements']} |", flush=True)


def round_count(program: str, ranks: int) -> int:
    """Messages that follow one another in a call: the hops of docs/algorithms.md."""
    log2 = ranks.bit_length() - 1
    extra = ranks - (1 << log2)
    if short(program) == "recursive_doubling":
        return log2 + (extra > 0) + (2 * extra > 1 << log2)
    return {"ring": 2 * (ranks - 1), "halving_doubling": 2 * (log2 + (extra > 0)),
            "all_pairs": 2}[short(program)]


def print_latency(delay_us: str, name: str, floor_name: str) -> None:
    delay = float(delay_us)
    hop = read_json(name + ".two")["sizes"][0]["median_us"]
    report, ring, floor, floor_ring = (read_json(path + suffix) for path in (name, floor_name)
                                       for suffix in (".all", ".ring"))
    ranks = report["ranks"]
    print(f"delay {delay:.0f} us, {ranks} ranks: one hop between 2 ranks takes {hop:.0f} us; "
          f"cores in use {busy_percent(name + '.all'):.0f} %")
    print("| size | program | rounds | rounds x delay us | median us | without delay us | "
          "median / rounds | wrong |")
    print("|---|---|---|---|---|---|---|---|")
    for row, base in zip(report["sizes"] + ring["sizes"], floor["sizes"] + floor_ring["sizes"],
                         strict=True):
        rounds = round_count(row["program"], ranks) * delay
        print(f"| {size_text(row['bytes'])} | {short(row['program'])} | "
              f"{round_count(row['program'], ranks)} | {rounds:.0f} | {row['median_us']:.0f} | "
              f"{base['median_us']:.0f} | {row['median_us'] / rounds:.2f} | "
              f"{row['wrong_elements']} |")
    ring_row = ring["sizes"][0]
    for row in report["sizes"]:
        if row["bytes"] == ring_row["bytes"]:
            print(f"{size_text(row['bytes'])}: {short(row['program'])} is "
                  f"{ring_row['median_us'] / row['median_us']:.2f} times as fast as the ring")
    print(f"relay: {pathlib.Path(name + '.relay').read_text().strip()}", flush=True)


def print_soak(title: str, ranks: str) -> None:
    report = read_json(ranks)
    rows = report["sizes"]
    results = sum(row["checked_results_per_rank"] for row in rows)
    wrong = sum(row["wrong_elements"] for row in rows)
    sent = sum(row["sent_bytes_per_rank"] for row in rows) / 1e9
    cpu = sum(row["cpu_seconds_per_rank"] for row in rows)
    print("| size | program | results per rank | median us | busbw MB/s | CPU s/GB | wrong |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {size_text(row['bytes'])} | {short(row['program'])} | "
              f"{row['checked_results_per_rank']} | {row['median_us']:.0f} | "
              f"{row['busbw_bytes_per_second'] / 1e6:.2f} | {seconds_per_gb(row):.2f} | "
              f"{row['wrong_elements']} |")
    print(f"{title}, {report['elapsed_seconds']:.0f} s: {results} results per rank, {wrong} wrong "
          f"elements; {sent:.2f} GB sent per rank, {cpu:.1f} CPU seconds per rank: "
          f"{cpu / sent:.2f} s/GB (the paper: {PAPER_SECONDS_PER_GB:.2f}); cores in use "
          f"{busy_percent(ranks):.0f} %")
    assert not math.isnan(cpu)


COMMANDS = {"bandwidth_head": print_bandwidth_head, "bandwidth": print_bandwidth,
            "latency": print_latency, "soak": print_soak}

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    if name == "goodput":
        print_goodput(words)
    else:
        COMMANDS[name](*words)
