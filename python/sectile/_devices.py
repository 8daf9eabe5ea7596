# The devices of this machine, and which of them computes on tensors in host memory.
from typing import NamedTuple

from . import _native


class Device(NamedTuple):
    name: str  # "cuda:0", "virtual:sm_90a"
    description: str  # the product's name
    target: str  # what kernels are compiled for
    on_host: bool  # it runs in this process, on tensors in host memory
    warp_size: int
    max_threads: int  # of one block
    multiprocessors: int
    max_shared_bytes: int  # of one block
    gigabytes_per_second: float  # of its memory; 0 where the driver does not say
    free_bytes: int  # of its memory, now
    total_bytes: int


def devices():
    """The devices that open on this machine."""
    return [Device(**_native.device_info(name)) for name in _native.device_names()]


def use_host_device(name=None):
    """Has tensors in host memory computed by this device: "virtual:sm_80", "interpreter". None: the default again, which
    is the device that SECTILE_DEVICE names if it runs on the host, else virtual:sm_90a."""
    _native.use_host_device(name)
