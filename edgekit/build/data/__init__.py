"""Pictures for calibration and for judging: the user's own, or crops of photos that installed packages ship; and texts.

```
calibration, judging = open_parts(None, calibration=128, judging=64)
pixels = calibration.images(resolution_px=224, resize_px=256, filter="bicubic")  # (128, 224, 224, 3) uint8
```
"""

from edgekit.build.data.dataset import Crop, Dataset, Sample, Skipped
from edgekit.build.data.folders import open_data
from edgekit.build.data.parts import open_parts
from edgekit.build.data.photos import sample_photos
from edgekit.build.data.splits import Parts, class_names, held_out, open_splits, split_folders
from edgekit.build.data.texts import TextParts, Texts, open_text_splits, open_texts, text_split_files
from edgekit.build.data.tokens import PADDING, Tokens, padded

__all__ = [
    "PADDING",
    "Crop",
    "Dataset",
    "Parts",
    "Sample",
    "Skipped",
    "TextParts",
    "Texts",
    "Tokens",
    "class_names",
    "held_out",
    "open_data",
    "open_parts",
    "open_splits",
    "open_text_splits",
    "open_texts",
    "padded",
    "sample_photos",
    "split_folders",
    "text_split_files",
]
