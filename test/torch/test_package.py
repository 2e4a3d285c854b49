"""The package around the native module: registration, names that clash, settings."""

import importlib.metadata
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

import mccl
import mccl_entry_point
import ranks as rank_processes


def forget_mccl(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "mccl"]:
        monkeypatch.delitem(sys.modules, name)


def put_first(monkeypatch, folder):
    forget_mccl(monkeypatch)
    monkeypatch.syspath_prepend(str(folder))


def test_our_own_package_is_recognised():
    assert mccl_entry_point._own_package() is mccl


def test_a_foreign_package_called_mccl_is_named_by_its_path(monkeypatch, tmp_path):
    (tmp_path / "mccl").mkdir()
    (tmp_path / "mccl" / "__init__.py").write_text("__version__ = '9.9'\n")
    put_first(monkeypatch, tmp_path)
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: {})
    with pytest.raises(ImportError) as caught:
        mccl_entry_point._create_backend(None)
    assert str(caught.value) == (
        "the back end mccl needs the package mccl of torch-mccl, but another one is imported from "
        f"{tmp_path}/mccl/__init__.py; rename or remove it")


def test_the_distribution_of_a_foreign_package_is_named(monkeypatch, tmp_path):
    (tmp_path / "mccl").mkdir()  # a namespace package: it has no file
    (tmp_path / "fleet_mccl-1.0.dist-info").mkdir()
    (tmp_path / "fleet_mccl-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fleet-mccl\nVersion: 1.0\n")
    (tmp_path / "fleet_mccl-1.0.dist-info" / "top_level.txt").write_text("mccl\n")
    forget_mccl(monkeypatch)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImportError) as caught:
        mccl_entry_point._create_backend(None)
    assert str(caught.value) == (
        "the back end mccl needs the package mccl of torch-mccl, but another one is imported from "
        f"{tmp_path}/mccl; uninstall fleet-mccl")


def test_a_torch_of_another_minor_release_is_refused(monkeypatch):
    from mccl import _build_info

    monkeypatch.setattr(_build_info, "TORCH_MINOR", "2.12")
    with pytest.raises(ImportError) as caught:
        mccl._native()
    assert str(caught.value) == (
        f"torch-mccl was built for torch 2.12, found torch {torch.__version__}; install the "
        "torch-mccl for it, or build it again")


def is_installed():
    return any(point.name == "mccl" and point.value == "mccl_entry_point:register"
               for point in importlib.metadata.entry_points(group="torch.backends"))


@pytest.mark.skipif(not is_installed(), reason="the package has no metadata: run make build")
def test_importing_torch_is_enough():
    script = """
import sys, torch, torch.distributed as dist
assert "mccl" not in sys.modules
dist.init_process_group("mccl", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
dist.destroy_process_group()
print(tensor.tolist())
"""
    environment = {name: value for name, value in os.environ.items()
                   if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=120, env=environment)
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0, 1.0]\n"), done.stderr


def make_two_groups(rank, rank_count):
    rank_processes.init()
    dist.new_group()
    dist.all_reduce(torch.ones(1))


def test_an_unknown_setting_is_warned_about_once():
    with rank_processes.Ranks(1, initialises=False, environment={"MCCL_TIMOUT": "5"}) as ranks:
        ranks.call(make_two_groups)
        output = ranks.output(0)
    assert output.count("MCCL_TIMOUT is not a setting of this version and has no effect; "
                        "the nearest is MCCL_TIMEOUT") == 1, output


def start_and_fail(rank, rank_count, values):
    os.environ["MCCL_PARK_LIMIT"] = values[rank]
    try:
        rank_processes.init(timeout_s=20)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def test_a_setting_that_cannot_be_read_is_refused():
    with rank_processes.Ranks(1, initialises=False) as ranks:
        text = ranks.call(start_and_fail, ["much"])[0]
    assert text.startswith("ValueError: mccl: ") and "MCCL_PARK_LIMIT" in text and "much" in text


def test_settings_that_must_agree_are_compared_and_both_values_named():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        texts = ranks.call(start_and_fail, ["64M", "32M"])
    for text in texts:
        assert text.startswith("DistBackendError: mccl: the ranks have different values "), texts
        assert "MCCL_PARK_LIMIT" in text and "64M" in text and "32M" in text


def set_log_level(rank, rank_count):
    rank_processes.init()


def test_the_start_up_line_is_printed_by_rank_0_alone():
    with rank_processes.Ranks(2, initialises=False, environment={"MCCL_LOG": "info"}) as ranks:
        ranks.call(set_log_level)
        outputs = [ranks.output(rank) for rank in (0, 1)]
    assert outputs[0].count("2 ranks on 1 host, ") == 1
    assert "ranks on" not in outputs[1]
