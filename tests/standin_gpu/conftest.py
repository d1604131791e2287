"""Whatever is tested in this folder is tested with the stand-in GPU as the machine's accelerator."""

import pytest
import torch
from standin_gpu import standin


@pytest.fixture(scope="session", autouse=True)
def gpu() -> torch.device:
    if reason := standin.why_not():
        pytest.skip(reason)
    torch.set_num_threads(1)
    standin.load()
    return torch.device(standin.NAME)
