"""The error tree: exit codes, parts and hints."""

import pytest

from edgekit.spec import errors


@pytest.mark.parametrize(
    ("cls", "code", "exit_code"),
    [
        (errors.EdgekitError, "internal", 1),
        (errors.InputError, "input", 2),
        (errors.BundleError, "bundle", 2),
        (errors.GoalError, "goal", 3),
        (errors.SetupError, "setup", 4),
    ],
)
def test_codes(cls, code, exit_code):
    error = cls("it broke", where="here", fix="mend it")
    assert (error.code, error.exit_code) == (code, exit_code)
    assert error.as_dict() == {"code": code, "what": "it broke", "where": "here", "fix": "mend it"}
    assert str(error) == "it broke; at here; fix: mend it"
    assert cls("x", code="other").code == "other"


def test_unknown_name_names_the_nearest():
    error = errors.UnknownName("target", "snapdragn865", ["snapdragon865", "raspberrypi4"], listing="edgekit targets")
    assert error.code == "unknown-target"
    assert "did you mean snapdragon865?" in error.fix
    assert "edgekit targets" in error.fix
    assert "known: a, b" in errors.UnknownName("target", "zzz", ["b", "a"]).fix
