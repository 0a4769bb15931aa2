"""Small bundles for the tests of this folder."""

import sys
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance"
sys.path.insert(0, str(CONFORMANCE))


@pytest.fixture
def nano(tmp_path):
    """A fresh bundle as a folder."""
    import tiny

    from edgekit.spec.bundle import write_bundle

    write_bundle(tiny.nano_manifest(), tiny.nano_contents(), tmp_path / "nano")
    return tmp_path / "nano"


@pytest.fixture
def nano_zip(nano):
    """The same bundle as an `.ekb` file."""
    from edgekit.spec.bundle import pack_zip

    pack_zip(nano, nano.with_suffix(".ekb"))
    return nano.with_suffix(".ekb")
