"""Write all vectors of this folder anew: `python tests/conformance/make.py [folder]`. The same bytes each time."""

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import ladder_cases
import make_wordpiece
import numeric_cases
import tiny
from bundle_cases import write_bundles
from manifest_case import edited
from manifest_cases import cases
from text_cases import text_contents, text_manifest

from edgekit.spec.bundle import write_bundle

HERE = Path(__file__).parent
MADE = (
    "manifests",
    "bundles",
    "manifests.json",
    "bundles.json",
    "quantize.json",
    "tables.json",
    "ladder.json",
    "decode.json",
    "wordpiece.json",
)


def write_json(path: Path, kind: str, items: list) -> None:
    """One vector file, a case a line, so that a change shows as one line."""
    lines = ",\n".join("  " + json.dumps(item, ensure_ascii=False, allow_nan=False) for item in items)
    path.write_text(f'{{"version": 1, "kind": "{kind}", "cases": [\n{lines}\n]}}\n', encoding="utf-8", newline="\n")


def write_manifests(out: Path, bases: dict) -> None:
    """One file for each manifest, and the list with what a reader must say of it."""
    (out / "manifests").mkdir()
    items = []
    for case in cases(bases):
        data = case.raw
        if data is None:
            data = json.dumps(edited(bases[case.base], case.edits), ensure_ascii=False).encode() + b"\n"
        (out / "manifests" / f"{case.name}.json").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        items.append(
            {
                "name": case.name,
                "why": case.why,
                "file": f"manifests/{case.name}.json",
                "error": case.error,
                "schema": case.schema,
                "digest": digest,
            }
        )
    write_json(out / "manifests.json", "manifests", items)


def main(out: Path) -> None:
    """Write everything below `out`."""
    for name in MADE:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    bases = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, manifest, contents in (
            ("nano", tiny.nano_manifest(), tiny.nano_contents()),
            ("tiny", tiny.tiny_manifest(), tiny.tiny_contents()),
            ("text", text_manifest(), text_contents()),
        ):
            write_bundle(manifest, contents, Path(folder, name))
            bases[name] = json.loads(Path(folder, name, "manifest.json").read_bytes())
    write_manifests(out, bases)
    write_json(out / "bundles.json", "bundles", write_bundles(out))
    write_json(out / "quantize.json", "quantize", numeric_cases.quantize_cases())
    write_json(out / "tables.json", "tables", numeric_cases.table_cases())
    write_json(out / "ladder.json", "ladder", ladder_cases.climbs())
    write_json(out / "decode.json", "decode", numeric_cases.decode_cases())
    (out / "wordpiece.json").write_text(make_wordpiece.make(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
