"""Every run draws the same examples, however slow the machine, and leaves the other core to its neighbour."""

import torch
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
torch.set_num_threads(1)
