"""The entry point runs inside `import torch`: it may fail, but never raise."""

import importlib.util
import pathlib
import sys
import types

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "python" / "mccl_entry_point.py"


class FakeBackend:
    backend_list: list[str]
    calls: list[tuple]

    @classmethod
    def register_backend(cls, name, creator, **options):
        cls.backend_list.append(name)
        cls.calls.append((name, creator, options))


def fake_torch(monkeypatch, is_available):
    FakeBackend.backend_list = ["gloo"]
    FakeBackend.calls = []
    distributed = types.ModuleType("torch.distributed")
    distributed.Backend = FakeBackend
    distributed.is_available = is_available
    torch = types.ModuleType("torch")
    torch.distributed = distributed
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)


@pytest.fixture
def entry_point():
    spec = importlib.util.spec_from_file_location("entry_point_under_test", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_registers_the_back_end_once(monkeypatch, entry_point):
    fake_torch(monkeypatch, lambda: True)
    entry_point.register()
    entry_point.register()
    assert [call[0] for call in FakeBackend.calls] == ["mccl"]
    assert FakeBackend.calls[0][2] == {"extended_api": True, "devices": ["cpu", "mps"]}
    assert entry_point.failure is None


def test_leaves_a_torch_without_distributed_alone(monkeypatch, entry_point):
    fake_torch(monkeypatch, lambda: False)
    entry_point.register()
    assert FakeBackend.calls == []
    assert entry_point.failure is None


def test_keeps_what_went_wrong_instead_of_raising_it(monkeypatch, entry_point):
    def explode():
        raise RuntimeError("broken torch")

    fake_torch(monkeypatch, explode)
    entry_point.register()
    assert str(entry_point.failure) == "broken torch"


def test_survives_an_environment_without_torch(monkeypatch, entry_point):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    entry_point.register()
    assert isinstance(entry_point.failure, ImportError)


def test_imports_neither_torch_nor_mccl_by_itself(monkeypatch):
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location("entry_point_alone", SOURCE)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert not {"torch", "mccl"} & (set(sys.modules) - before)
