"""The command `mccl` as it is installed: exit codes, streams, JSON and figures."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys

import pytest

MCCL = pathlib.Path(sys.executable).parent / "mccl"
# A ring of two ranks that sums in place, with one lane each.
RING = """<algo name="mine" nchunksperloop="2" nchannels="1" proto="Simple" ngpus="2"
                coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"
            depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def run(*arguments: object, status: int = 0, text: str = "", **variables: str) -> tuple[str, str]:
    """Standard output and standard error of `mccl ARGUMENTS`."""
    done = subprocess.run(
        [MCCL, *map(str, arguments)], input=text, capture_output=True, text=True,
        env={**os.environ, **variables}, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def run_json(*arguments: object, **options: object) -> dict:
    return json.loads(run(*arguments, "--json", **options)[0])


def test_version_and_help_are_results():
    assert run("--version") == ("mccl 0.1.0\n", "")
    for verb in ("dump", "env", "explain", "fit", "perf", "plan", "simulate", "tune"):
        out, err = run(verb, "-h")
        assert f"Example:\n  mccl {verb} " in out
        assert err == ""


RING_FILE = pathlib.Path(__file__).parents[1] / "torch" / "programs" / "ring_of_two.xml"


def test_explain_names_the_file_that_would_serve_and_the_rule_in_its_way():
    served = run_json("explain", "--ranks", 2, "--bytes", "64K", "--in-place", "--xml", RING_FILE)
    assert served["programs"][0]["program"] == "ring_of_two"
    assert served["programs"][0]["verdict"] == f"loaded from {RING_FILE}"
    small, _ = run("explain", "--ranks", 2, "--bytes", 32, "--xml", RING_FILE)
    assert "rejected: its window is 64 bytes or more and less than 1048577" in small
    assert "would do: calls of 64 bytes or more" in small
    strict, _ = run("explain", "--ranks", 2, "--bytes", 100, "--xml", RING_FILE,
                    MCCL_ALGO_FIT="strict")
    assert "a block of 25 elements does not divide into 2 chunks" in strict
    others, _ = run("explain", "--ranks", 4, "--bytes", "64K", "--xml", RING_FILE)
    assert "rejected: it is for 2 ranks, the communicator has 4" in others


def test_explain_says_no_to_a_file_that_is_not_proven(tmp_path):
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(RING_FILE.read_text().replace('type="rrcs"', 'type="rcs"'))
    _, err = run("explain", "--ranks", 2, "--bytes", "64K", "--xml", wrong, status=1)
    assert f"{wrong}:6:7: not proven, postcondition: rank 0: output[0] lacks" in err


def test_a_verb_that_nobody_has_is_a_usage_error():
    out, err = run("simulat", status=2)
    assert out == ""
    assert err.endswith("the nearest verb is simulate\n")


def test_an_unknown_verb_is_a_program_of_the_path(tmp_path):
    program = tmp_path / "mccl-hello"
    program.write_text('#!/bin/sh\necho "hello $1"\nexit 4\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    out, _ = run("hello", "you", status=4, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert out == "hello you\n"


@pytest.mark.parametrize("arguments", [
    ("plan", "--sizes", "1T"), ("plan", "--ranks", "1"), ("plan", "--op", "sum"),
    ("plan", "--link", "wan"), ("plan", "--bandwidth", "10"), ("plan", "--frobnicate"),
    ("simulate", "rnig"), ("simulate", "--bytes", "0"), ("simulate", "--count", "0"),
    ("simulate", "--late", "99=1"), ("simulate", "missing.xml"), ("fit", "missing.txt"), ("fit",),
    ("dump",), ("dump", "missing.json"), ("dump", "1073741824"), ("dump", "/dev/null"),
])
def test_usage_errors_are_one_line_on_standard_error(arguments):
    out, err = run(*arguments, status=2)
    assert out == ""
    assert err.startswith(f"mccl {arguments[0]}: ")
    assert err.count("\n") == 1


def test_plan_gives_the_ring_limits_of_the_paper():
    limits = run_json("plan", "--link", "paper", "--crossover-ranks")["limits"]
    assert [row["bytes"] for row in limits] == [25 << 20, 50 << 20]
    assert [round(row["ranks"], 1) for row in limits] == [69.2, 138.4]


def test_plan_names_the_choice_and_marks_every_figure():
    plan = run_json("plan", "--ranks", 24, "--link", "paper", "--sizes", "64K,25M")
    assert plan["kind"] == "modelled"
    chosen = [size["programs"][0] for size in plan["sizes"]]
    assert [one["program"] for one in chosen] == [
        "all_reduce_recursive_doubling", "all_reduce_ring"]
    assert chosen[1]["time_us"] == 40891.064
    assert plan["crossovers"][1] == {"from_bytes": 262145, "program": "all_reduce_ring"}


def test_plan_gives_the_worked_example_of_msccl():
    plan = run_json("plan", "--ranks", 8, "--alpha-us", 2, "--bandwidth", "300GB/s",
                    "--protocol", "all_pairs=LL,ring=LL128", "--sizes", "64K,64M")
    small, large = (size["programs"] for size in plan["sizes"])
    assert small[0]["program"] == "all_reduce_all_pairs"
    assert round(small[1]["times_the_fastest"], 2) == 5.96
    assert large[0]["program"] == "all_reduce_ring"
    assert round(large[1]["times_the_fastest"], 2) == 1.77
    assert [one["from_bytes"] for one in plan["crossovers"]] == [0, 4408164]


def test_perf_measures_between_processes(tmp_path):
    file = tmp_path / "perf.json"
    out, _ = run("perf", "all_reduce", "--ranks", 3, "-b", "1K", "-e", "4K", "-f", 2, "-n", 2, "-J",
                 file)
    rows = [line.split() for line in out.splitlines() if not line.startswith("#")]
    assert [row[:5] for row in rows] == [
        ["1024", "256", "float", "sum", "-1"], ["2048", "512", "float", "sum", "-1"],
        ["4096", "1024", "float", "sum", "-1"]]
    assert all(len(row) == 13 and row[8] == row[12] == "0" for row in rows)
    perf = json.loads(file.read_text())
    assert perf["kind"] == "measured" and perf["ranks"] == 3
    assert [result["size"] for result in perf["results"]] == [1024, 2048, 4096]


def test_perf_fails_as_nccl_tests_do():
    out, _ = run("perf", "all_reduce", "-b", 64, "-e", 64, "-n", 1, status=7,
                 NCCL_TESTS_MIN_BW="1000000")
    assert re.search(r"^# Avg bus bandwidth    : \S+ FAILED$", out, re.MULTILINE)
    run("perf", "all_gather", "-b", 64, "-e", 64, "-n", 1, "--algo", "all_reduce_ring", status=1)


@pytest.mark.parametrize("names", [
    ("RANK", "WORLD_SIZE", {}),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"})])
def test_perf_joins_a_launcher(names):
    rank, count, others = names
    port = str(find_port())
    processes = [subprocess.Popen(
        [MCCL, "perf", "all_gather_perf", "-b", "1K", "-e", "1K", "-n", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **others, rank: str(index), count: "2", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": port}) for index in range(2)]
    first, second = (process.communicate(timeout=60) for process in processes)
    assert [process.returncode for process in processes] == [0, 0], (first, second)
    assert "# Out of bounds values : 0 OK" in first[0]
    assert second[0] == ""


def test_env_says_where_values_come_from():
    rows = {row["name"]: row for row in run_json(
        "env", NCCL_ALGO="ring", MCCL_TIMEOUT="60")["settings"]}
    assert (rows["MCCL_ALGO"]["value"], rows["MCCL_ALGO"]["origin"]) == ("ring", "NCCL_ALGO")
    assert rows["MCCL_TIMEOUT"] == {
        "name": "MCCL_TIMEOUT", "default": "1800", "value": "60", "origin": "environment",
        "scope": "local", "fault": ""}
    out, _ = run("env", status=1, MCCL_TIMEOUT="soon", MCCL_TIMEOT="9")
    assert out.endswith(
        "MCCL_TIMEOUT=soon is not allowed: give a number from 0.001 to 10000000\n"
        "MCCL_TIMEOT is not a setting and has no effect; the nearest is MCCL_TIMEOUT\n")


def write_dump(path, rank, posted, state):
    members = [{"rank": one, "host": "h7", "pid": 10 + one, "process": f"{one}"}
               for one in range(2)]
    operation = {"sequence": 0, "call": "barrier()", "state": state, "waits_for": [1 - rank]}
    path.write_text(json.dumps({
        "format": "mccl dump", "format_version": 1, "process": f"{rank}", "host": "h7",
        "pid": 10 + rank, "time": "2026-01-01T00:00:00.000000Z",
        "communicators": [{
            "id": "a", "name": "group 0", "rank": rank, "members": members,
            "operations_posted": posted, "operations_completed": 0,
            "operations": [operation][:posted]}]}))
    return path


def test_dump_goes_on_without_a_source_that_gives_nothing(tmp_path):
    waiting = write_dump(tmp_path / "0.json", 0, 1, "running")
    out, err = run("dump", "1073741824", waiting, str(tmp_path / "missing.json"), status=2)
    assert "there is no process 1073741824 here" in err
    assert "missing.json" in err
    assert "rank 0 waits for rank 1, of which there is no dump, in operation 0" in out


def test_dump_names_who_is_behind(tmp_path):
    waiting = write_dump(tmp_path / "0.json", 0, 1, "running")
    behind = write_dump(tmp_path / "1.json", 1, 0, "")
    out, err = run("dump", waiting, behind, status=1)
    assert err == ""
    assert out.splitlines() == [
        "group 0, 2 ranks",
        "  rank  host      pid  posted completed  call         state    waits for",
        "     0  h7         10       1         0  0 barrier()  running  rank 1",
        "     1  h7         11       0         0",
        "  rank 1 has not made operation 0, barrier(), which rank 0 waits for"]
    assert json.loads(run("dump", waiting, behind, "--json", status=1)[0])["is_anybody_behind"]
    write_dump(behind, 1, 1, "running")
    assert run("dump", waiting, behind)[0].endswith("\nnobody is behind\n")


def test_fit_finds_the_network_that_was_simulated(tmp_path):
    files = []
    for ranks, size in ((16, "1M"), (24, "1M"), (16, "25M"), (24, "25M")):
        name = tmp_path / f"{ranks}_{size}.json"
        name.write_text(run("simulate", "ring", "--ranks", ranks, "--bytes", size, "--link",
                            "paper", "--json")[0])
        files.append(name)
    fit = run_json("fit", *files, "--predict", "20x4M", "--predict", "100x50M")
    assert fit["best"] == "per_hop"
    best = next(one for one in fit["fits"] if one["form"] == "per_hop")
    assert {row["kind"] for row in best["rows"]} == {"simulated"}
    # Few hops: the form's last alpha, which a ring bound by latency does not have, shows.
    assert best["alpha_us"] == pytest.approx(306, rel=0.03)
    assert best["bytes_per_second"] == pytest.approx(1.238e9, rel=0.02)
    assert [one["kind"] for one in best["predictions"]] == ["modelled", "extrapolated"]
    # "holds 1.23 GB/s at 100 nodes"
    assert best["predictions"][1]["busbw_gb_per_s"] == pytest.approx(1.23, abs=0.03)


def test_fit_reads_standard_input():
    fit = run_json("fit", "-", "--form", "additive",
                   text="ranks size time\n2 1000 102\n2 1000000 1100\n")
    # t = 2 (alpha + S / (2 B)): 102 = 2 alpha + 1000 / B, 1100 = 2 alpha + 1000000 / B.
    assert fit["fits"][0]["bytes_per_second"] == round(999000 / 998 * 1e6)
    assert fit["fits"][0]["alpha_us"] == pytest.approx(50.5005005)


def test_simulate_is_deterministic_and_simulated():
    arguments = ("simulate", "ring", "--ranks", 8, "--bytes", "1M", "--link", "paper",
                 "--skew-ms", 2, "--seed", 7)
    first, second = run(*arguments, "--json"), run(*arguments, "--json")
    assert first == second
    report = json.loads(first[0])
    assert report["kind"] == "simulated"
    assert report["program"] == "all_reduce_ring"
    assert report["share_of_link"] < 1
    assert report["completion_us"]["min"] <= report["completion_us"]["max"]
    assert run_json(*arguments[:-1], 8)["completion_us"] != report["completion_us"]


def test_simulate_runs_a_file_and_writes_a_trace(tmp_path):
    program, trace = tmp_path / "mine.xml", tmp_path / "trace.json"
    program.write_text(RING)
    report = run_json("simulate", program, "--bytes", "64K", "--link", "paper", "--trace", trace)
    assert (report["program"], report["ranks"]) == ("mine", 2)
    # Two hops of 306 us, and 32 KiB twice through two ports.
    assert report["time_us"] == pytest.approx(2 * 306 + 2 * 32768 / 1238, rel=0.1)
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert sum(event["ph"] == "s" for event in events) == 4
    assert sum(event["ph"] == "f" for event in events) == 4


def test_simulate_refuses_what_the_verifier_refuses(tmp_path):
    program = tmp_path / "wrong.xml"
    program.write_text(RING.replace('type="rrcs" srcbuf="i" srcoff="1"',
                                    'type="rcs" srcbuf="i" srcoff="1"'))
    out, err = run("simulate", program, status=1)
    assert out == ""
    assert "program mine for 2 ranks is not proven and does not run" in err


def test_simulate_names_the_faults_of_a_file(tmp_path):
    program = tmp_path / "faulty.xml"
    program.write_text(RING.replace('type="rrcs"', 'type="rrcz"', 1))
    _, err = run("simulate", program, status=1)
    assert f"{program}:7:" in err


def test_doctor_alone_says_what_this_host_has():
    checks = json.loads(subprocess.run([MCCL, "doctor", "--json"], capture_output=True, text=True,
                                       check=False).stdout)["checks"]
    assert {row["subject"] for row in checks} == {
        "interface", "ports", "open files", "congestion", "buffers"}
    assert {row["result"] for row in checks} <= {"ok", "warn"}


def start_doctors(hosts: list[str], port: int, *options: str) -> list[subprocess.Popen]:
    """A doctor for each host of this machine, the first one last."""
    return [subprocess.Popen(
        [MCCL, "doctor", "--hosts", ",".join(hosts), "--self", host, "--port", str(port),
         *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for host in reversed(hosts)]


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other loopback addresses need Linux")
def test_doctors_of_all_hosts_measure_and_the_first_reports():
    hosts = ["127.0.0.1", "127.0.0.2"]
    doctors = start_doctors(hosts, find_port(), "--json")
    (_, other_err), (out, err) = (doctor.communicate(timeout=60) for doctor in doctors)
    assert [doctor.returncode for doctor in doctors] == [1, 1], err  # one machine is no network
    report = json.loads(out)
    assert report["kind"] == "measured"
    assert [(pair["from"], pair["to"], pair["outcome"]) for pair in report["pairs"]] == [
        ("127.0.0.1", "127.0.0.2", "ok"), ("127.0.0.2", "127.0.0.1", "ok")]
    assert [finding["kind"] for finding in report["findings"]] == ["poor_interface"]
    assert report["exit_status"] == 1
    assert other_err.endswith("127.0.0.1, the first of --hosts, has the report\n")
    assert "neither authenticated nor encrypted" in err


@pytest.mark.skipif(sys.platform != "linux", reason="other loopback addresses need Linux")
def test_doctor_says_that_the_other_host_never_came():
    out, _ = run("doctor", "--hosts", "127.0.0.1,127.0.0.2", "--self", "127.0.0.1", "--port",
                 find_port(), "--timeout", 1, status=3)
    assert re.search(r"127.0.0.2 never came, in [0-9.]+ s: nobody listens at 127.0.0.2:", out)
    _, err = run("doctor", "--hosts", "127.0.0.1,127.0.0.2", "--self", "127.0.0.2", "--port",
                 find_port(), "--timeout", 1, status=3)
    assert "127.0.0.2 and 127.0.0.1, the first of --hosts, did not meet in 1 s" in err
