"""`edgekit.open` and `model.run`, end to end on real engines."""

import threading

import numpy as np
import pytest
import tiny_bundles
import tiny_payloads as tiny
from PIL import Image

import edgekit
from edgekit.runtime.pixels import apply_table, crop_pixels, make_table
from edgekit.spec.bundle import pack_zip
from edgekit.spec.errors import BundleError, InputError

ENGINES = ("litert", "onnx")
PHOTO = np.random.default_rng(9).integers(0, 256, (40, 30, 3)).astype(np.uint8)


def reference(image):
    pixels = crop_pixels(image, tiny_bundles.manifest(()).rungs[0], filter_name="bilinear")
    table = make_table(tiny_bundles.PREPROCESS, tiny_bundles.image_spec("onnx"))
    return tiny.reference(apply_table(pixels, table, layout="NCHW"))


@pytest.mark.parametrize("engine", ENGINES)
def test_answer(bundle, engine):
    with edgekit.open(bundle, engine=engine) as model:
        result = model.run(PHOTO, top=3)
    logits = reference(PHOTO)[0].astype(int)
    order = np.argsort(-logits, kind="stable")
    assert [label.index for label in result.labels] == order[:3].tolist()
    assert result.labels[0].name == f"label {order[0]}"
    scores = np.exp((logits - logits.max()) * tiny.OUT_SCALE)
    assert result.labels[0].score == pytest.approx(1 / scores.sum())
    assert result.margin == logits[order[0]] - logits[order[1]]
    assert (result.rung, result.engine, result.precision) == ("full", engine, "int8")
    assert result.delegate == {"litert": "XNNPACK", "onnx": "CPUExecutionProvider"}[engine]
    assert min(result.latency_ms.pre, result.latency_ms.inference, result.latency_ms.post) > 0


def test_path_pil_and_array_give_the_same(bundle, tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(PHOTO).save(path)
    with edgekit.open(bundle, engine="onnx") as model:
        answers = {model.run(image).labels for image in (path, str(path), Image.open(path), PHOTO)}
    assert len(answers) == 1


def test_packed_bundle(bundle, tmp_path):
    packed = tmp_path / "tiny.ekb"
    digest = pack_zip(bundle, packed)
    for engine in ENGINES:
        with edgekit.open(packed, engine=engine) as model:
            assert model.digest == digest
            np.testing.assert_array_equal(model.logits(PHOTO), reference(PHOTO))


def test_logits_of_a_batch(bundle):
    images = tiny.golden_images()
    with edgekit.open(bundle, engine="litert") as model:
        np.testing.assert_array_equal(model.logits(images), tiny_bundles.expected())
        np.testing.assert_array_equal(model.logits(PHOTO, rung="full"), reference(PHOTO))
        for wrong in (images[:, :4], images[:0], images.astype(np.float32)):
            with pytest.raises(InputError, match="a batch is"):
                model.logits(wrong)
        with pytest.raises(InputError, match="no rung 'low'"):
            model.logits(images, rung="low")


def test_verify_and_warm_up(bundle):
    with edgekit.open(bundle, engine="onnx") as model:
        model.warm_up(2)
        (result,) = model.verify()
    assert result.ok
    assert result.n == tiny.IMAGES


def test_threads_share_a_model(bundle):
    images = [np.random.default_rng(seed).integers(0, 256, (20, 20, 3)).astype(np.uint8) for seed in range(8)]
    wanted = [reference(image)[0] for image in images]
    for engine in ENGINES:
        wrong = []
        with edgekit.open(bundle, engine=engine, threads=2) as model:

            def work(turn, model=model, wrong=wrong):
                for index in range(60):
                    choice = (index * 7 + turn) % len(images)
                    if not np.array_equal(model.logits(images[choice])[0], wanted[choice]):
                        wrong.append(choice)

            workers = [threading.Thread(target=work, args=(turn,)) for turn in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        assert not wrong


def test_close_while_another_thread_runs(bundle):
    model = edgekit.open(bundle, engine="litert")
    errors = []

    def work():
        try:
            while True:
                model.run(PHOTO)
        except InputError as error:
            errors.append(error.code)

    worker = threading.Thread(target=work)
    worker.start()
    model.close()
    worker.join(timeout=20)
    assert errors == ["model-closed"]


def test_closed_model_says_so(bundle):
    model = edgekit.open(bundle, engine="onnx")
    model.close()
    model.close()
    for use in (lambda: model.run(PHOTO), lambda: model.logits(PHOTO), model.warm_up):
        with pytest.raises(InputError, match="the model is closed"):
            use()


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_bad_threads(bundle, threads):
    with pytest.raises(InputError, match="threads is"):
        edgekit.open(bundle, threads=threads)


def test_bad_top_and_bad_image(bundle, tmp_path):
    with edgekit.open(bundle, engine="onnx") as model:
        with pytest.raises(InputError, match="top is 0"):
            model.run(PHOTO, top=0)
        with pytest.raises(InputError, match="no such image"):
            model.run(tmp_path / "none.jpg")
        assert len(model.run(PHOTO, top=99).labels) == tiny.CLASSES


def test_damaged_bundle(bundle):
    payload = bundle / "payloads" / "int8.onnx"
    data = bytearray(payload.read_bytes())
    data[len(data) // 2] ^= 1
    payload.write_bytes(data)
    with pytest.raises(BundleError, match="damaged"):
        edgekit.open(bundle)
    payload.write_bytes(data[:100])
    with pytest.raises(BundleError, match="100 bytes"):
        edgekit.open(bundle)


def test_three_engines_agree(tmp_path, payload_files):
    path = tiny_bundles.write(tmp_path / "three", payload_files)
    for engine in payload_files:
        with edgekit.open(path, engine=engine, threads=1) as model:
            np.testing.assert_array_equal(model.logits(tiny.golden_images()), tiny_bundles.expected())
