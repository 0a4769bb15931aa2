import dataclasses
import json
import sys
import types

import pytest

import edgekit.build
from edgekit import cli


@dataclasses.dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


@pytest.fixture
def edgekit_(capsys, monkeypatch, tmp_path):
    """Run one command line in an empty folder -> its exit code and what it printed."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EDGEKIT_STORE", raising=False)

    def run(*arguments):
        capsys.readouterr()
        code = cli.invoke([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def fake_api(monkeypatch):
    """A stand-in for the builder, which needs torch: set `plan` and `build` on it."""
    api = types.ModuleType("edgekit.build.api")
    monkeypatch.setitem(sys.modules, "edgekit.build.api", api)
    monkeypatch.setattr(edgekit.build, "api", api, raising=False)
    return api
