#!/usr/bin/env bash
# From a fresh clone to an answer: environment, a bundle for a phone, and the bundle run on a photo here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${1:-snapdragon865}"
bash tools/env.sh
bundle="bundles/demo-$target"
.venv/bin/edgekit build --target "$target" --out "$bundle"
# A photo that scikit-image ships: a real one, no download. Calibration has not seen it.
photo="$(.venv/bin/python -c 'from edgekit.build.data.photos import photo_path; print(photo_path("skimage", "chelsea.png"))')"
.venv/bin/edgekit run "$bundle" "$photo"
echo "bundle: $bundle"
