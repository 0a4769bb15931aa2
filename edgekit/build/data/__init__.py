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

__all__ = ["Crop", "Dataset", "Sample", "Skipped", "open_data", "open_parts", "sample_photos"]
