"""Where a network is trained."""

import os
from contextlib import AbstractContextManager, nullcontext

import torch

from edgekit.build.training.plan import DEVICES
from edgekit.spec.errors import InputError, SetupError

__all__ = ["autocast", "fork_devices", "resolve", "workers"]

_MAX_WORKERS = 8


def resolve(wanted: str) -> str:
    """`auto`, `cpu` or `cuda` -> `cpu` or `cuda`.

    Raises:
        InputError: another name.
        SetupError: `cuda` was asked for and is not there.
    """
    if wanted not in DEVICES:
        raise InputError(f"unknown device {wanted!r}", where="--device", fix=f"use one of {', '.join(DEVICES)}", code="device")
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        why = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no GPU"
        raise SetupError(
            f"device 'cuda' cannot be used: {why}",
            where="--device",
            fix="use --device cpu, or --device auto",
            code="cuda-missing",
        )
    return "cuda" if there and wanted != "cpu" else "cpu"


def autocast(device: str, *, on_cpu: bool = False) -> AbstractContextManager[object]:
    """bfloat16 on a GPU: it has the range of float32, so that no loss has to be scaled. On a CPU only where that is asked for."""
    return torch.autocast(device, dtype=torch.bfloat16) if device == "cuda" or on_cpu else nullcontext()


def fork_devices(device: str) -> list[int]:
    """GPUs whose random numbers a training disturbs."""
    return [torch.cuda.current_device()] if device == "cuda" else []


def workers(device: str) -> int:
    """Processes that read photos; 0 reads them in this one, where more processes would only take cores from the network."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if device == "cpu" and cores <= 2 else min(_MAX_WORKERS, cores)
