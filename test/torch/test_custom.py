"""Custom collectives: programs from files, called by their names."""

import pytest
import torch
import torch.distributed as dist

import mccl
import ranks as rank_processes

# Every rank but the first gets its left neighbour's two chunks; rank 0 gets nothing.
SHIFT = """
<program name="shift" collective="custom" ranks="3" chunks="1" in_place="false" out_of_place="true">
  <rank id="0" input_chunks="2" outputs="" scratch_chunks="0">
    <lane id="0" send="1" recv="-1" channel="0"><step id="0" op="send" src="i:0*2"/></lane>
  </rank>
  <rank id="1" input_chunks="2" outputs="0:0 0:1" scratch_chunks="0">
    <lane id="0" send="2" recv="-1" channel="0"><step id="0" op="send" src="i:0*2"/></lane>
    <lane id="1" send="-1" recv="0" channel="0"><step id="0" op="recv" dst="o:0*2"/></lane>
  </rank>
  <rank id="2" input_chunks="2" outputs="1:0 1:1" scratch_chunks="0">
    <lane id="0" send="-1" recv="1" channel="0"><step id="0" op="recv" dst="o:0*2"/></lane>
  </rank>
</program>
"""
# Rank 2's second promise is rank 0's chunk, which nobody sends there.
WRONG = SHIFT.replace('outputs="1:0 1:1"', 'outputs="1:0 0:1"')


@pytest.fixture
def shift_file(tmp_path):
    path = tmp_path / "shift.xml"
    path.write_text(SHIFT)
    return str(path)


def shift(rank, rank_count):
    output_count = 0 if rank == 0 else 10
    output = torch.full((output_count,), -1.0)
    strided = torch.arange(20, dtype=torch.float32)[::2] + 100 * rank
    mccl.custom_collective("shift", strided, output)
    work = mccl.custom_collective("shift", strided, output, async_op=True)
    work.wait()
    served = {row["program"]: row["calls"] for row in mccl.stats()["loaded"]}
    return output.tolist(), served


def test_a_custom_collective_does_what_its_contract_says(shift_file):
    with rank_processes.Ranks(3, environment={"MSCCL_XML_FILES": shift_file}) as ranks:
        found = ranks.call(shift)
    for rank, (output, served) in enumerate(found):
        wanted = [100.0 * (rank - 1) + 2 * index for index in range(10)] if rank > 0 else []
        assert output == wanted
        assert served == {"shift": 2}


def call_wrongly(rank, rank_count):
    def raised(name, count, op="sum"):
        try:
            mccl.custom_collective(name, torch.zeros(count), torch.zeros(0 if rank == 0 else count),
                                   op=op)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return "no error"
    return [raised("shaft", 4), raised("shift", 5), raised("shift", 4, "avg")]


def test_wrong_calls_are_refused_before_anything_is_sent(shift_file):
    with rank_processes.Ranks(3, environment={"MSCCL_XML_FILES": shift_file}) as ranks:
        for texts in ranks.call(call_wrongly):
            assert texts[0] == ('ValueError: mccl: no custom collective called "shaft" for 3 ranks '
                                "is loaded; loaded: shift for 3 ranks")
            assert texts[1] == ("ValueError: mccl: shift: the input has 5 elements, which are not "
                                "2 equal chunks")
            assert "use sum and divide" in texts[2]


def meet(rank, rank_count):
    rank_processes.init()


def test_a_contract_that_is_not_kept_is_refused_at_the_start(tmp_path):
    path = tmp_path / "wrong.xml"
    path.write_text(WRONG)
    with rank_processes.Ranks(3, initialises=False,
                              environment={"MSCCL_XML_FILES": str(path)}) as ranks:
        for outcome in ranks.outcomes(meet):
            assert ("rank 2: output[1] should hold input[1] of rank 0 alone and holds 1:1"
                    in outcome.error), outcome
        ranks.is_broken = True


def time_out(rank, rank_count):
    # As scripts do that say nothing of timeouts.
    store = dist.PrefixStore("plain", rank_processes._meeting.connect())
    dist.init_process_group("mccl", store=store, rank=rank, world_size=rank_count)
    if rank == 1:
        rank_processes.await_go("rank 0 has seen it")
        return "waited"
    try:
        dist.all_reduce(torch.ones(4))
    except Exception as error:
        rank_processes.go("rank 0 has seen it")
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "no error"


def test_the_setting_is_the_timeout_of_a_group_that_was_given_none():
    with rank_processes.Ranks(2, initialises=False,
                              environment={"MCCL_TIMEOUT": "1.5"}) as ranks:
        texts = ranks.call(time_out)
        assert "Timed out" in texts[0] and "rank 1" in texts[0], texts
        ranks.is_broken = True
