"""Expands every case over the backends that are declared; each backend is a marker: `pytest tests/suite -m litert`."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from edgekit import catalog

REPORT = "EDGEKIT_SUITE_REPORT"


def pytest_configure(config):
    for name in catalog.lowering_names():
        config.addinivalue_line("markers", f"{name}: cases of the backend suite that need {name}")


@pytest.fixture(scope="session")
def bench():
    """Quantizes and lowers each case once a session; `EDGEKIT_SUITE_REPORT=FILE` writes what was seen as JSON."""
    pytest.importorskip("torch")
    pytest.importorskip("torchao")
    import torch
    from harness import Bench

    threads = torch.get_num_threads()
    # Tiny operators: a second thread waits longer than it works.
    torch.set_num_threads(1)
    bench = Bench()
    yield bench
    torch.set_num_threads(threads)
    if os.environ.get(REPORT):
        Path(os.environ[REPORT]).write_text(json.dumps(bench.report(), indent=1, sort_keys=True) + "\n")


def pytest_generate_tests(metafunc):
    """`case`, `backend` and `precision` of a test function -> one test each."""
    names = [name for name in ("case", "backend", "precision") if name in metafunc.fixturenames]
    if "case" not in names:
        return
    pytest.importorskip("torch")
    from cases import ALL

    backends = catalog.lowering_names() if "backend" in names else (None,)
    rows = []
    for case in ALL:
        for precision in case.precisions if "precision" in names else (None,):
            for backend in backends:
                row = {"case": case, "backend": backend, "precision": precision}
                marks = [getattr(pytest.mark, backend)] if backend else []
                label = "-".join(part for part in (case.name, precision, backend) if part)
                rows.append(pytest.param(*[row[name] for name in names], marks=marks, id=label))
    metafunc.parametrize(names, rows)
