"""The stages that train networks that read text: what they write, what they refuse, that an interrupt changes nothing."""

import dataclasses
import json
import os

import numpy as np
import pytest
import torch
from token_toys import plan

from edgekit.build import pipeline
from edgekit.build.artifact import Artifact, pin
from edgekit.build.checkpoint import WEIGHTS, read_history
from edgekit.build.stages.fit_text import DistillText, FitText, TrainRoundedText
from edgekit.build.store import Store
from edgekit.build.text.checkpoint import read_text_checkpoint, with_text_head, write_text_checkpoint
from edgekit.build.text.config import TextConfig
from edgekit.build.text.facts import TextFacts, is_text, read_text_facts
from edgekit.build.text.network import TextNetwork
from edgekit.build.text.splits import choose_text_splits
from edgekit.build.text.tokenizer import open_tokenizer
from edgekit.build.training import checkpoints
from edgekit.build.training.evaluate import evaluate
from edgekit.build.training.plan import SoftLabels
from edgekit.spec.digest import sha256_tree
from edgekit.spec.errors import InputError

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("one_thread")

SUBJECTS = ("card", "coin", "cheque")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SUBJECTS, "my", "is", "lost", "where", "the", "a", "please", "help")
TRAINING = plan(epochs=8, learning_rate=1e-2)
CONFIG = TextConfig("bert", len(WORDS), hidden=16, layers=2, heads=2, intermediate=32, positions=16)


def draw_texts(path, *, each=24, subjects=SUBJECTS, seed=0):
    """A CSV of texts that name their class."""
    rng = np.random.default_rng(seed)
    rows = ["text,label"]
    for subject in subjects:
        for _ in range(each):
            words = list(rng.choice(WORDS[8:], int(rng.integers(2, 9))))
            words[rng.integers(len(words))] = words[-1] = subject
            rows.append(f"{' '.join(words)} {rng.choice(WORDS[8:])},about {subject}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path


def checkpoint_in(folder, *, classes=0, seed=0, words=WORDS, names=(), config=CONFIG):
    """A random network, as it would be loaded."""
    vocabulary = folder.with_name(f"{folder.name}-vocabulary")
    vocabulary.mkdir(parents=True)
    (vocabulary / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    (vocabulary / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tokenizer = open_tokenizer(vocabulary)
    torch.manual_seed(seed)
    config = dataclasses.replace(config, vocabulary=len(words))
    task = "text-classification" if classes else "sentence-embedding"
    facts = TextFacts("tiny", task, classes, config, tokenizer.facts, 12, "random", "", "MIT", names)
    folder.mkdir()
    write_text_checkpoint(folder, TextNetwork(config, classes), facts, tokenizer=tokenizer)
    return Artifact("checkpoint", sha256_tree(folder), folder)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return choose_text_splits(draw_texts(tmp_path_factory.mktemp("texts") / "t.csv"), seed=0, trains=True)[0]


def run(tmp_path, stage, source, store="store"):
    return pipeline.run((stage,), source, store=Store(tmp_path / store))[0]


def test_fit_gives_a_head_and_learns(tmp_path, splits):
    source = checkpoint_in(tmp_path / "start")
    made = run(tmp_path, FitText(splits, TRAINING), source)
    module, facts, tokenizer = read_text_checkpoint(made.path)
    assert is_text(made.path)
    assert (facts.classes, facts.names) == (3, ("about card", "about cheque", "about coin"))
    assert (facts.task, facts.license, facts.max_tokens) == ("text-classification", "MIT", 12)
    parts = splits.open()
    assert facts.weights == f"fitted on {len(parts.fit)} texts"
    assert len(facts.weights_sha256) == 64
    report = tokenizer.tokens(parts.report, max_tokens=facts.max_tokens)
    assert (evaluate(module, report, facts).argmax(1) == np.asarray(report.labels)).mean() > 0.9
    told = read_history(made.path)["fit"]
    assert told["texts"] == len(parts.fit)
    assert told["new"] == ["head.weight", "head.bias"]
    assert sorted(os.listdir(made.path)) == ["history.json", "model.json", "tokenizer", "weights.pt"]
    assert os.listdir(tmp_path / "store" / "resume") == []


def test_an_interrupted_fit_gives_the_same_bytes(tmp_path, splits, monkeypatch):
    monkeypatch.setattr(checkpoints.Keeper, "due", lambda self: self.path is not None)
    source, stage = checkpoint_in(tmp_path / "start"), FitText(splits, dataclasses.replace(TRAINING, epochs=2))
    whole = run(tmp_path, stage, source, "a")
    told = []

    def interrupt(event):
        told.append(event)
        if event.kind == "progress" and "epoch 2" in event.note:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.run((stage,), source, store=Store(tmp_path / "b"), observe=interrupt)
    assert len(os.listdir(tmp_path / "b" / "resume")) == 1
    assert run(tmp_path, stage, source, "b").digest == whole.digest


def test_a_fit_goes_on_with_a_head_of_the_same_names_only(tmp_path, splits):
    short = dataclasses.replace(TRAINING, epochs=1)
    names = ("about coin", "about card", "about cheque")
    same = checkpoint_in(tmp_path / "same", classes=3, names=names)
    made = run(tmp_path, FitText(splits, short), same)
    assert read_text_facts(made.path).names == names
    assert read_history(made.path)["fit"]["new"] == []
    other = checkpoint_in(tmp_path / "other", classes=3, names=("x", "y", "z"))
    made = run(tmp_path, FitText(splits, short), other)
    assert read_text_facts(made.path).names == splits.classes
    assert read_history(made.path)["fit"]["new"] == ["head.weight", "head.bias"]


def test_only_a_student_of_random_weights_begins_with_its_teachers_words(tmp_path, splits, monkeypatch):
    begun = []
    monkeypatch.setattr("edgekit.build.text.start.inherit_words", lambda student, teacher: begun.append(student) or True)
    short = dataclasses.replace(TRAINING, epochs=1)
    teacher = run(tmp_path, FitText(splits, short), checkpoint_in(tmp_path / "start"))
    assert not begun
    run(tmp_path, DistillText(teacher, splits, short), checkpoint_in(tmp_path / "small", seed=1))
    assert len(begun) == 1
    run(tmp_path, DistillText(teacher, splits, short), teacher)
    assert len(begun) == 1


def test_texts_to_report_on_are_not_looked_at(tmp_path, splits):
    source = checkpoint_in(tmp_path / "start")
    parts = splits.open()
    teacher = run(tmp_path, FitText(splits, TRAINING), source)
    stage = DistillText(teacher, splits, TRAINING, SoftLabels(), pin(splits.folder.path), purpose="shrink")
    assert pipeline.title(stage) == "shrink"
    small = checkpoint_in(tmp_path / "small", config=dataclasses.replace(CONFIG, layers=1))
    made = run(tmp_path, stage, small)
    told = read_history(made.path)["shrink"]
    assert told["teacher"] == "tiny"
    kept = {*parts.tune.texts, *parts.report.texts}
    assert told["unlabelled_texts"] == sum(
        text not in kept for part in (parts.fit, parts.tune, parts.report) for text in part.texts
    )
    assert told["tune_top1"][-1] > 0.8
    assert read_text_facts(made.path).weights == f"shrink: {len(parts.fit)} texts and the answers of tiny"


def test_teachers_that_cannot_teach_are_refused(tmp_path, splits):
    source = checkpoint_in(tmp_path / "start")
    for teacher, code in (
        (checkpoint_in(tmp_path / "four", classes=4), "teacher-classes"),
        (checkpoint_in(tmp_path / "named", classes=3, names=("x", "y", "z")), "teacher-classes"),
        (checkpoint_in(tmp_path / "words", classes=3, words=(*WORDS, "more")), "teacher-tokens"),
    ):
        with pytest.raises(InputError) as caught:
            run(tmp_path, DistillText(teacher, splits, TRAINING), source)
        assert caught.value.code == code


def test_training_with_rounding_keeps_names_and_structure(tmp_path, splits):
    fitted = run(tmp_path, FitText(splits, TRAINING), checkpoint_in(tmp_path / "start"))
    made = run(tmp_path, TrainRoundedText(splits, dataclasses.replace(TRAINING, epochs=1, learning_rate=1e-4)), fitted)
    before, after = read_text_facts(fitted.path), read_text_facts(made.path)
    assert dataclasses.replace(after, weights=before.weights, weights_sha256=before.weights_sha256) == before
    assert after.weights.endswith(", trained with rounding")
    assert sorted(read_history(made.path)) == ["fit", "train-rounded"]
    read_text_checkpoint(made.path)


def test_a_new_head_leaves_all_else_as_it_was(tmp_path):
    source = checkpoint_in(tmp_path / "start", classes=4)
    old, _, _ = read_text_checkpoint(source.path)
    module, new = with_text_head(source.path, 3, seed=0, keep=True)
    assert new == ("head.weight", "head.bias")
    for name, value in module.state_dict().items():
        assert name in new or torch.equal(value, old.state_dict()[name])
    again, none = with_text_head(source.path, 4, seed=0, keep=True)
    assert none == ()
    assert torch.equal(again.head.weight, old.head.weight)
    assert torch.equal(with_text_head(source.path, 3, seed=0, keep=True)[0].head.weight, module.head.weight)
    assert not torch.equal(with_text_head(source.path, 4, seed=1, keep=False)[0].head.weight, old.head.weight)


def test_broken_checkpoints_are_refused(tmp_path):
    def refused(folder, match, code="weights"):
        with pytest.raises(InputError, match=match) as caught:
            read_text_checkpoint(folder)
        assert caught.value.code == code

    refused(tmp_path, "holds no model.json")
    folder = checkpoint_in(tmp_path / "a", classes=3).path
    document = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**document, "classes": 5}))
    refused(folder, "not of the network in model.json")
    (folder / "model.json").write_text("{")
    refused(folder, "cannot be read")
    (folder / "model.json").write_text(json.dumps({key: value for key, value in document.items() if key != "wordpiece"}))
    refused(folder, "'wordpiece' is missing")
    (folder / "model.json").write_text(json.dumps(document))
    (folder / WEIGHTS).write_bytes(b"PK\x03\x04")
    refused(folder, "damaged")
    (folder / WEIGHTS).unlink()
    refused(folder, "holds no weights.pt")
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    refused(folder, "tokenizer", code="tokenizer")
    assert not is_text(tmp_path)


def test_the_stages_are_values_free_of_torch():
    import subprocess
    import sys

    code = "import sys, edgekit.build.stages.fit_text; print('torch' in sys.modules, 'tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False False\n"


BLOCKED = """
import sys

for name in ("torchvision", "torchao", "executorch", "onnx", "onnxruntime", "litert_torch", "transformers", "scipy", "sklearn"):
    sys.modules[name] = None
import edgekit.build.training.trainer, edgekit.build.training.evaluate, edgekit.build.training.record
import edgekit.build.text.checkpoint, edgekit.build.text.fake, edgekit.build.stages.fit_text
print("fine")
"""


def test_training_on_texts_needs_torch_and_numpy_alone():
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr
