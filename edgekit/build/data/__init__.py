"""Pictures for calibration and for judging: the user's own, or crops of photos that installed packages ship.

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

__all__ = [
    "Crop",
    "Dataset",
    "Parts",
    "Sample",
    "Skipped",
    "class_names",
    "held_out",
    "open_data",
    "open_parts",
    "open_splits",
    "sample_photos",
    "split_folders",
]
