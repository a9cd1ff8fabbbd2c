"""Settings for the tests of objectives."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Problems this small only wait for threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
