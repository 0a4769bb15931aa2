"""Quantizes a case once, lowers it with a backend, runs the payload on the real engine and says what it saw."""

import dataclasses
import functools
import itertools
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

from edgekit import catalog
from edgekit.build import operators
from edgekit.build.lowerings import Lowered
from edgekit.build.quantize import Quantized, quantize
from edgekit.build.recipe import Recipe
from edgekit.runtime.verify import Comparison, compare, steps_of
from edgekit.spec.errors import EdgekitError
from edgekit.spec.manifest import Entry, Placement

__all__ = ["Bench", "Payload", "Simulation"]

IMAGES = 8
ACTIVATION_DTYPES = {"onnx": "uint8"}


@dataclasses.dataclass(frozen=True, slots=True)
class Simulation:
    """A quantized case in torch: the integers that go in and those that must come out.

    Attributes:
        quantized: what the backends lower.
        inputs: (n, 3, h, w) int8.
        outputs: (n, values) float64, in steps.
        snr_db: signal-to-noise ratio of those outputs against the float network.
    """

    quantized: Quantized
    inputs: np.ndarray
    outputs: np.ndarray
    snr_db: float


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """What one backend made of a case; `refused` is the code of its error, everything else is empty then.

    Attributes:
        outputs: (n, values) float64: steps of an integer payload, else real values.
        islands: types of float operators in it.
        placement: all of its operators, as the gate sees them.
        kernels: types of operators that the delegate left to the engine.
        calls: delegate calls, None where the engine decides when it loads.
        operators: all operators as text.
        size_bytes: of the file.
        refused: code of the error.
    """

    outputs: np.ndarray | None = None
    islands: tuple[str, ...] = ()
    placement: Placement | None = None
    kernels: tuple[str, ...] = ()
    calls: int | None = None
    operators: tuple[str, ...] = ()
    size_bytes: int = 0
    refused: str = ""


class Bench:
    """Remembers everything for the length of a session."""

    def __init__(self):
        self.program = functools.cache(_program)
        self.simulation = functools.cache(self._simulate)
        self.payload = functools.cache(self._build)
        self._seen = {}

    def images(self, case):
        """(n, 3, size, size) like normalized photos: neighbours resemble each other."""
        generator = torch.Generator().manual_seed(1)
        coarse = torch.randn(IMAGES, 3, 4, 4, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=case.size_px, mode="bicubic")
        return smooth + 0.3 * torch.randn(IMAGES, 3, case.size_px, case.size_px, generator=generator)

    def float_outputs(self, case):
        """(n, values) of the float network."""
        return _run_torch(self.program(case), self.images(case))

    def difference(self, case, backend):
        """An integer payload against the simulation."""
        found = _compared(self.payload(case, backend, "int8").outputs, self.simulation(case).outputs)
        self._seen[case, backend, "int8"].update(mean_steps=found.mean_steps, max_steps=found.max_steps)
        return found

    def pairs(self, case, backends):
        """Integer payloads against each other: (a, b, comparison)."""
        outputs = {b: p.outputs for b in backends if (p := self.payload(case, b, "int8")).outputs is not None}
        return [(a, b, _compared(outputs[a], outputs[b])) for a, b in itertools.combinations(outputs, 2)]

    def report(self):
        """Everything seen so far as plain values: case -> SNR and payloads."""
        cases = {}
        for (case, backend, precision), seen in self._seen.items():
            entry = cases.setdefault(case.name, {"snr_db": None, "payloads": {}})
            if precision == "int8":
                entry["snr_db"] = round(self.simulation(case).snr_db, 2)
            entry["payloads"][f"{backend}-{precision}"] = seen
        return cases

    def _simulate(self, case):
        images = self.images(case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantized = quantize(
                self.program(case), [image[None] for image in images], recipe=Recipe(float_layers=case.float_layers)
            )
        entry, end = quantized.entry, quantized.exit
        steps = torch.clamp(torch.round(images / entry.scale) + entry.zero_point, -128, 127)
        real = _run_torch(quantized.folded, (steps - entry.zero_point) * entry.scale)
        wanted = self.float_outputs(case)
        noise = float(((real - wanted) ** 2).sum())
        snr_db = 10 * np.log10(float((wanted**2).sum()) / max(noise, 1e-20))
        return Simulation(quantized, steps.numpy().astype(np.int8), np.rint(real / end.scale) + end.zero_point, snr_db)

    def _build(self, case, backend, precision):
        lowering = catalog.find_lowering(backend)
        images = self.simulation(case).inputs if precision == "int8" else self.images(case).numpy()
        try:
            if precision == "int8":
                dtype = ACTIVATION_DTYPES.get(backend, "int8")
                lowered = lowering.lower_integer(self.simulation(case).quantized, activation_dtype=dtype)
            else:
                lowered = lowering.lower_float(self.program(case), precision=precision)
        except EdgekitError as error:
            payload = Payload(refused=error.code)
        else:
            payload = _read_and_run(backend, lowering.SUFFIX, lowered, images)
        self._seen[case, backend, precision] = {"operators": list(payload.operators), "size_bytes": payload.size_bytes}
        return payload


def _program(case):
    torch.manual_seed(0)
    network = case.make().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(network, (torch.zeros(1, 3, case.size_px, case.size_px),), strict=False)


def _run_torch(program, images):
    module = program.module(check_guards=False)
    with torch.no_grad():
        return torch.cat([module(image[None]) for image in images]).double().numpy()


def _read_and_run(backend, suffix, lowered: Lowered, images):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"payload{suffix}"
        path.write_bytes(lowered.payload)
        placement = operators.read(backend, path)
        entry = Entry("all", path.name, lowered.method, lowered.inputs, lowered.outputs)
        session = catalog.find_engine(backend).load(path, entry, threads=1)
        try:
            rows = [steps_of(session.run(_as_input(image, lowered.inputs[0]))[0]).reshape(-1) for image in images]
        finally:
            session.close()
    left = {o.type for o in placement.operators if not o.delegate and placement.delegate != "CPUExecutionProvider"}
    return Payload(
        outputs=np.stack(rows),
        islands=tuple(sorted({o.type for o in placement.operators if o.dtype in operators.FLOAT_TYPES})),
        placement=placement,
        kernels=tuple(sorted(left)),
        calls=placement.delegate_calls,
        operators=tuple(f"{o.type}:{o.dtype} x {o.count}" for o in placement.operators),
        size_bytes=len(lowered.payload),
    )


def _as_input(image, spec):
    """(3, h, w), int8 or real -> what the entry takes."""
    x = image[None]
    if spec.layout == "NHWC":
        x = x.transpose(0, 2, 3, 1)
    if spec.dtype == "uint8":
        x = x.astype(np.int16) + 128
    return np.ascontiguousarray(x.astype(spec.dtype))


def _compared(a, b) -> Comparison:
    # Both are in steps already, the zero point of uint8 taken off.
    return compare(a, b, scale=1.0)
