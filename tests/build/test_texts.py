"""Texts of the user: what is read, how it is cut into parts, and what is refused."""

import collections

import pytest

from edgekit.build.data import Texts, Tokens, open_text_splits, open_texts, padded, text_split_files
from edgekit.build.text.splits import choose_text_splits
from edgekit.spec.errors import InputError


def write(path, rows, *, header="text,label"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def many(each=10, names=("b", "a", "c")):
    return [f"text {name} {i},{name}" for name in names for i in range(each)]


@pytest.mark.parametrize("header", ["text,label", "text,category", "Text , CATEGORY", "\ufefftext,label", "id,text,label"])
def test_the_columns_are_found_by_name(tmp_path, header):
    rows = ["hi,b", '"two\nlines, one text",a']
    if header.startswith("id"):
        rows = [f"7,{row}" for row in rows]
    texts = open_texts(write(tmp_path / "t.csv", rows, header=header))
    assert texts.texts == ("hi", "two\nlines, one text")
    assert texts.classes == ("a", "b")
    assert texts.labels == (1, 0)


def test_numbers_are_ordered_by_size_and_label_goes_before_category(tmp_path):
    texts = open_texts(write(tmp_path / "t.csv", ["x,10,z", "y,9,z"], header="text,label,category"))
    assert texts.classes == ("9", "10")
    assert texts.labels == (1, 0)


def test_rows_without_text_are_skipped_and_counted(tmp_path):
    texts = open_texts(write(tmp_path / "t.csv", ["hi,a", ",a", "  ,b", "", "ho,b"]))
    assert texts.texts == ("hi", "ho")
    assert texts.skipped == 3


def test_texts_without_a_column_of_classes_serve_a_teacher(tmp_path):
    texts = open_texts(write(tmp_path / "t.csv", ["hi", "ho"], header="text"), labelled=False)
    assert (texts.labels, texts.classes, len(texts)) == (None, (), 2)
    labelled = open_texts(write(tmp_path / "u.csv", ["hi,", "ho,b"]), labelled=False)
    assert labelled.texts == texts.texts


def refused(path, code, match):
    with pytest.raises(InputError, match=match) as caught:
        open_text_splits(path, seed=0, trains=True)
    assert caught.value.code == code
    assert caught.value.fix
    return caught.value


def test_what_is_refused(tmp_path):
    refused(tmp_path / "none.csv", "data", "not found")
    refused(tmp_path, "data", "no CSV file")
    refused(
        write(tmp_path / "c.csv", ["a,b"], header="sentence,intent"), "data-columns", "no column text; found: sentence, intent"
    )
    refused(
        write(tmp_path / "d.csv", ["a,b"], header="text,intent"),
        "data-columns",
        "no column label or category; found: text, intent",
    )
    assert "commas" in refused(write(tmp_path / "e.csv", ["a;b"], header="text;label"), "data-columns", "found: text;label").fix
    refused(write(tmp_path / "f.csv", ["hi,a", "ho,a"]), "one-class", "all 2 texts are of one class, 'a'")
    refused(write(tmp_path / "g.csv", []), "data-empty", "a header and no row")
    refused(write(tmp_path / "h.csv", [",a", ",b"]), "data-empty", "no text in 2 rows")
    assert refused(write(tmp_path / "i.csv", ["hi,a", "ho,"]), "data-text", "without a class").where.endswith("i.csv:3")
    refused(write(tmp_path / "j.csv", ["hi,a", "ho,b"]), "data-few", "2 texts are too few")
    refused(tmp_path, "data", "8 CSV files")
    (tmp_path / "k.csv").write_bytes(b"")
    refused(tmp_path / "k.csv", "data-empty", "the file is empty")


def test_the_line_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("text,label\nfine,a\nna\u00efve,b\n".encode("latin1"))
    error = refused(tmp_path / "t.csv", "data-text", "byte 0xef in line 3")
    assert error.where.endswith("t.csv:3")


def test_a_file_of_another_encoding_is_told_by_its_mark(tmp_path):
    (tmp_path / "t.csv").write_bytes("text,label\nfine,a\n".encode("utf-16"))
    assert "utf16" in refused(tmp_path / "t.csv", "data-text", "not UTF-8").fix


def test_the_line_after_a_text_of_two_lines_is_counted_right(tmp_path):
    assert refused(write(tmp_path / "t.csv", ['"two\nlines",a', "ho,"]), "data-text", "without").where.endswith(":4")


def test_train_and_validation_are_cut_like_photos(tmp_path):
    write(tmp_path / "train.csv", [*many(50, ("a", "b")), *many(10, ("c",))])
    write(tmp_path / "validation.csv", [f"new {name},{name}" for name in "cab"])
    parts = open_text_splits(tmp_path, seed=0, trains=True)
    assert [len(part) for part in (parts.fit, parts.tune, parts.report)] == [88, 22, 3]
    assert collections.Counter(parts.tune.labels) == {0: 10, 1: 10, 2: 2}
    assert not {*parts.fit.texts} & {*parts.tune.texts}
    assert parts.report.classes == parts.fit.classes == ("a", "b", "c")
    assert parts.report.labels == (2, 0, 1)
    again = open_text_splits(tmp_path, seed=0, trains=True)
    assert again == parts
    assert open_text_splits(tmp_path, seed=1, trains=True).tune != parts.tune
    judged = open_text_splits(tmp_path, seed=0, trains=False)
    assert [len(part) for part in (judged.fit, judged.tune, judged.report)] == [110, 1, 2]


def test_validation_may_lack_classes_but_not_add_them(tmp_path):
    write(tmp_path / "train.csv", many())
    write(tmp_path / "validation.csv", ["x,b", "y,c"])
    assert open_text_splits(tmp_path, seed=0, trains=True).report.labels == (1, 2)
    write(tmp_path / "validation.csv", ["x,b", "y,d", "z,e"])
    assert refused(tmp_path, "data-classes", "d, e").where.endswith("validation.csv")


def test_one_csv_is_cut_in_the_same_shares(tmp_path):
    parts = open_text_splits(write(tmp_path / "t.csv", many(50)), seed=0, trains=True)
    assert [len(part) for part in (parts.fit, parts.tune, parts.report)] == [96, 24, 30]
    assert text_split_files(tmp_path) is None


def test_the_digest_is_of_texts_labels_and_order(tmp_path):
    texts = Texts("x", ("a", "b"), (0, 1), ("p", "q"))
    assert texts.digest == Texts("elsewhere", ("a", "b"), (0, 1), ("p", "q")).digest
    others = (
        Texts("x", ("b", "a"), (0, 1)),
        Texts("x", ("a", "b"), (1, 0)),
        texts.without_labels(),
        Texts("x", ("a", "b\n"), (0, 1)),
    )
    assert len({texts.digest, *(other.digest for other in others)}) == 5
    splits, parts = choose_text_splits(write(tmp_path / "t.csv", many()), seed=0, trains=True)
    assert splits.open() == parts


def test_a_draw_is_spread_evenly(tmp_path):
    texts = open_texts(write(tmp_path / "t.csv", [*many(20, ("a",)), *many(3, ("b",))]))
    assert collections.Counter(texts.take(6).labels) == {0: 3, 1: 3}


def test_ids_are_padded_with_minus_one():
    assert padded([(1, 2), (3,)], max_tokens=128).tolist() == [[1, 2, *[-1] * 6], [3, *[-1] * 7]]
    assert padded([(1,) * 13], max_tokens=14).shape == (1, 14)
    assert padded([], max_tokens=14).shape == (0, 0)
    tokens = Tokens("x", ((1, 2), (3,)), 8, (0, 1))
    assert tokens.lengths == (2, 1)
    assert len({tokens.digest, Tokens("x", ((1, 2), (3,)), 9, (0, 1)).digest, tokens.without_labels().digest}) == 3
