"""`edgekit.open` of bundles that read text, end to end on ONNX Runtime."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

import tiny_text as tiny

import edgekit
from edgekit.bench import bench, verify_bundle
from edgekit.bench.reports import reports
from edgekit.spec.errors import BundleError, InputError
from edgekit.spec.report import report_bytes


@pytest.mark.parametrize(("static", "dtype"), [(False, "int64"), (True, "int64"), (True, "int32")])
def test_answers(tmp_path, static, dtype):
    with edgekit.open(tiny.write(tmp_path / "b", static=static, dtype=dtype)) as model:
        assert isinstance(model, edgekit.runtime.TextModel)
        for text in ("", "my card", "my card has not arrived late! [MASK]", b"caf\xc3\xa9"):
            given = text if isinstance(text, str) else text.decode()
            ids = tiny.encode(given)
            result = model.run(text, top=3)
            assert (result.tokens, result.truncated) == (len(ids), False)
            assert result.bucket_tokens == (8 if len(ids) <= 8 else 16)
            np.testing.assert_allclose(model.logits(text)[0], tiny.reference(ids), atol=1e-5)
            assert result.labels[0].name == tiny.LABELS[int(np.argmax(tiny.reference(ids)))]
        assert all(check.ok for check in model.verify())
        assert len(model.verify()) == len(tiny.BUCKETS) + 1


def test_long_text_is_cut_and_says_so(tmp_path):
    with edgekit.open(tiny.write(tmp_path / "b")) as model:
        result = model.run("card " * 40)
        assert (result.tokens, result.bucket_tokens, result.truncated) == (42, 16, True)
        np.testing.assert_allclose(model.logits("card " * 40)[0], tiny.reference([2, *[6] * 14, 3]), atol=1e-5)


def test_refusals(tmp_path):
    with edgekit.open(tiny.write(tmp_path / "b"), engine="onnx") as model:
        for wrong, code in ((b"\xff", "text-utf8"), (3, "text-type"), ("\ud83d", "text-utf8")):
            with pytest.raises(InputError) as caught:
                model.run(wrong)
            assert caught.value.code == code
        with pytest.raises(InputError, match="no embeddings"):
            model.embed("card")
    with pytest.raises(InputError, match="closed"):
        model.run("card")


def test_embedding(tmp_path):
    with edgekit.open(tiny.write(tmp_path / "b", task="sentence-embedding"), engine="onnx") as model:
        assert model.embed("my card").shape == (tiny.CLASSES,)
        with pytest.raises(InputError, match="no classes"):
            model.run("my card")


def test_wrong_goldens_and_examples_are_found(tmp_path):
    with pytest.raises(BundleError, match="fails its goldens"):
        edgekit.open(tiny.write(tmp_path / "a", wrong=1.0))
    path = tiny.write(tmp_path / "b", examples=[{"text": "card", "ids": [2, 5, 3]}])
    assert not verify_bundle(path).ok
    with edgekit.open(path) as model:
        assert not model.verify()[-1].ok


def test_verify_and_bench(tmp_path):
    path = tiny.write(tmp_path / "b")
    assert verify_bundle(path).ok
    found = bench(path, runs=2)
    assert [each.tokens for each in found.results] == list(tiny.BUCKETS)
    (report,) = reports(found, target="host")
    assert {f"cpu_p50_{n}_tokens" for n in tiny.BUCKETS} <= {each.name for each in report.measurements}
    report_bytes(report)


def test_int8_and_float_are_paired_bucket_by_bucket(tmp_path):
    found = bench(tiny.write(tmp_path / "a"), against=tiny.write(tmp_path / "b", static=True), runs=2)
    assert [(each.tokens, each.ratio is None) for each in found.results] == [(8, False), (16, False), (8, True), (16, True)]
