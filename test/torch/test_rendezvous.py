"""Meeting again and again, what it leaves behind, and who is named while somebody is missing."""

import os
import re
import random
import select
import signal
import socket
import time

import pytest

import rendezvous_jobs
import scripts as script_processes

GROWTH_KIB_MAX = 2048
STOPPED_S = 5.0


@pytest.fixture(scope="module")
def scripts():
    with script_processes.Scripts() as starter:
        yield starter


def take_neighbours():
    """Two sockets on neighbouring ports of the loopback, such as no connection is given."""
    for port in random.sample(range(20000, 32000, 2), 1000):  # Linux gives those from 32768 on
        holders = []
        try:
            for number in (port, port + 1):
                holders.append(socket.create_server(("127.0.0.1", number)))
            return port, holders
        except OSError:
            for holder in holders:
                holder.close()
    raise AssertionError("no two neighbouring ports are free")


def test_fifty_meetings_over_one_store_and_two_ports_leave_nothing(scripts):
    port, holders = take_neighbours()
    for holder in holders:
        holder.close()
    ranks = scripts.start(rendezvous_jobs.meet_again_and_again, 2, 50, environment={
        "MCCL_PORT_RANGE": f"{port}-{port + 1}", "MCCL_SOCKET_IFNAME": "=lo"})
    scripts.wait()
    for script in ranks:
        assert script.status == 0, script.errors
        usages = script.reports[0]["usages"]
        assert len(usages) == 50
        # The first ones load what they need.
        (files, threads, memory_kib), last = usages[4], usages[-1]
        assert last[:2] == [files, threads]
        assert last[2] - memory_kib < GROWTH_KIB_MAX, usages


def test_collectives_make_no_request_to_the_store(scripts):
    ranks = scripts.start(rendezvous_jobs.count_requests, 2)
    scripts.wait()
    for script in ranks:
        assert script.status == 0, script.errors
        (row,) = script.reports
        assert row["met"] > 0 and row["later"] == 0


def test_a_range_of_ports_that_are_all_taken_is_named_with_their_holder(scripts):
    port, holders = take_neighbours()
    ranks = scripts.start(rendezvous_jobs.listen, 1, environment={
        "MCCL_PORT_RANGE": f"{port}-{port + 1}", "MCCL_SOCKET_IFNAME": "=lo"})
    scripts.wait()
    for holder in holders:
        holder.close()
    (told,) = ranks[0].reports
    assert told["type"] == "DistNetworkError"
    assert told["text"].startswith(
        f"mccl: cannot listen on 127.0.0.1 port {port} to {port + 1}: Address already in use; ")
    for taken in (port, port + 1):
        assert f"port {taken} is held by process {os.getpid()} (" in told["text"], told


def test_a_stopped_rank_is_named_and_the_results_stay_exact(scripts):
    ranks = scripts.start(rendezvous_jobs.sum_on, 3, 200)
    scripts.await_event("stops")
    stopped_at = time.monotonic()
    name = rf"rank 1 \(host \S+, pid {ranks[1].process_id}\)"
    while not any(re.search(name, script.errors) for script in ranks):
        assert time.monotonic() - stopped_at < 30, [script.errors for script in ranks]
        select.select([], [], [], 0.05)  # a file that grows announces nothing
    select.select([], [], [], max(0.0, STOPPED_S - (time.monotonic() - stopped_at)))
    ranks[1].send_signal(signal.SIGCONT)
    scripts.wait()
    for script in ranks:
        assert script.status == 0, script.errors
        assert script.reports == [{"rounds": 200}]
