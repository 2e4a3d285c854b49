"""Loads the fake device when imported: for `mccl selftest --import loaded_fake_mps`.

FAKE_MPS_FAULT names one of fake_mps.FAULTS.
"""

import os

import fake_mps

fake_mps.load(delay_us=100, jitter=1, fault=os.environ.get("FAKE_MPS_FAULT", "none"))
