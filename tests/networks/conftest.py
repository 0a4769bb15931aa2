"""Bundles of real networks, built once a session by the command that a user types. The store is shared (EDGEKIT_STORE)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SHARED = Path(os.environ.get("EDGEKIT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def edgekit():
    """The command line: arguments -> (exit code, its JSON document)."""
    return run


def run(*arguments, cwd=None, env=None):
    """Run the command line -> (exit code, its JSON document)."""
    done = subprocess.run(
        [sys.executable, "-m", "edgekit", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """name, *options -> (folder of the bundle, document of the build)."""
    folder = tmp_path_factory.mktemp("bundles")
    store = os.environ.get("EDGEKIT_STORE") or str(tmp_path_factory.mktemp("store"))
    done = {}

    def build(name, *options):
        key = (name, options)
        if key not in done:
            out = folder / str(len(done))
            code, document = run(
                "build", "--model", name, "--target", "snapdragon865", "-o", out, *options, env={"EDGEKIT_STORE": store}
            )
            assert code == 0, document
            done[key] = (out, {**document, "store": store})
        return done[key]

    return build


@pytest.fixture(scope="session")
def photos():
    """250 labelled photos that nothing was fitted to."""
    folder = SHARED / "data" / "imagenet_val"
    if not folder.is_dir():
        pytest.skip(f"labelled photos are not here: set EDGEKIT_SHARED to a folder with data/imagenet_val (tried {SHARED})")
    return folder
