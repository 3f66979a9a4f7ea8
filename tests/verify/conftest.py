"""Lets these tests import what they share (`formulas`, `standin`), as importlib mode does not, and
keeps torch to one thread: their tensors are tiny, and threads would only wait for each other."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
