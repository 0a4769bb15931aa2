"""MobileNetV2, MobileNetV3-Small and ResNet as torchvision defines them. No trained weights ship in a package: pass `--weights`.

Sources: Sandler et al. (CVPR 2018), Howard et al. (ICCV 2019), He et al. (CVPR 2016). Without `--weights` the networks are
random: they prove that the path from module to device works, and say nothing of accuracy.
"""

import torchvision
from torch import nn

SPECS = {
    "mobilenet_v2": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "resolutions_px": (128, 160, 192, 224),
        "crop_fraction": 0.875,
        "filter": "bilinear",
        "mean": (123.675, 116.28, 103.53),
        "std": (58.395, 57.12, 57.375),
        "exits_after": ("features.7", "features.13"),
        "license": "BSD-3-Clause",
        "description": "MobileNetV2 1.0 (torchvision), random weights unless --weights is given",
    },
    "mobilenet_v3_small": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "resolutions_px": (128, 160, 192, 224),
        "crop_fraction": 0.875,
        "filter": "bilinear",
        "mean": (123.675, 116.28, 103.53),
        "std": (58.395, 57.12, 57.375),
        "exits_after": ("features.3", "features.8"),
        "license": "BSD-3-Clause",
        "description": "MobileNetV3-Small (torchvision), random weights unless --weights is given",
    },
    "resnet18": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "resolutions_px": (128, 160, 192, 224),
        "crop_fraction": 0.875,
        "filter": "bilinear",
        "mean": (123.675, 116.28, 103.53),
        "std": (58.395, 57.12, 57.375),
        "teacher": "resnet50",
        "exits_after": ("layer2", "layer3"),
        "license": "BSD-3-Clause",
        "description": "ResNet-18 (torchvision), random weights unless --weights is given",
    },
    "resnet50": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "resolutions_px": (128, 160, 192, 224),
        "crop_fraction": 0.875,
        "filter": "bilinear",
        "mean": (123.675, 116.28, 103.53),
        "std": (58.395, 57.12, 57.375),
        "exits_after": ("layer2", "layer3"),
        "license": "BSD-3-Clause",
        "description": "ResNet-50 (torchvision), random weights unless --weights is given",
    },
}


def make(name: str, *, classes: int) -> nn.Module:
    """A network with random weights: (n, 3, height, width) float32 -> (n, classes) float32 logits."""
    return torchvision.models.get_model(name, weights=None, num_classes=classes)
