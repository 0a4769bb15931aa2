"""Vision transformer ViT-tiny, patches of 16 pixels, in operators that phones' engines take whole.

Source: Dosovitskiy et al. (arXiv 2010.11929), in the size of Touvron et al., DeiT (arXiv 2012.12877). `--weights` takes timm's
state dict of vit_tiny_patch16_224. Without it the network is random: it proves plumbing and speed, and says nothing of accuracy.
"""

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

SPECS = {
    "vit_tiny": {
        "task": "image-classification",
        "classes": 1000,
        "labels": "imagenet",
        "resolution_px": 224,
        "crop_fraction": 0.9,
        "filter": "bicubic",
        "mean": (127.5, 127.5, 127.5),
        "std": (127.5, 127.5, 127.5),
        "license": "Apache-2.0",
        "description": "ViT-tiny, patches of 16 pixels, random weights unless --weights is given",
    },
}

WIDTH, HEAD_WIDTH, LAYERS, PATCH_PX = 192, 64, 12, 16
PATCHES = (224 // PATCH_PX) ** 2
SCALE = 1 / math.sqrt(HEAD_WIDTH)
EPSILON = 1e-6
DEVIATION = 0.02
"""Of random weights, as in the paper."""


class Attention(nn.Module):
    """(images * tokens, width) -> the same; `q` holds 1 / sqrt(width of a head)."""

    def __init__(self, width: int, heads: int) -> None:
        """`heads` divides `width`."""
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, images: int) -> torch.Tensor:
        """Explicit products: what torch makes of scaled_dot_product_attention splits the graph on XNNPACK."""
        tokens, width = x.shape[0] // images, x.shape[1]
        # Layers that read one tensor follow each other, or XNNPACK's partitioner splits the graph at what they share.
        parts = [part(x) for part in (self.q, self.k, self.v)]
        q, k, v = (self._split(part, images, tokens) for part in parts)
        mixed = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1), v)
        mixed = mixed.reshape(images, self.heads, tokens, width // self.heads).permute(0, 2, 1, 3)
        return self.proj(mixed.reshape(images * tokens, width))

    def _split(self, x: torch.Tensor, images: int, tokens: int) -> torch.Tensor:
        parts = x.reshape(images, tokens, self.heads, -1).permute(0, 2, 1, 3)
        return parts.reshape(images * self.heads, tokens, -1)


class Block(nn.Module):
    """(images * tokens, width) -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        """`heads` divides `width`."""
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=EPSILON) for _ in range(2))
        self.attn = Attention(width, heads)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, images: int) -> torch.Tensor:
        """Pre-norm: each half reads its own norm, and is added to what it read."""
        x = x + self.attn(self.norm1(x), images)
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class VisionTransformer(nn.Module):
    """(images, 3, side, side) float32 -> (images, classes) float32 logits."""

    def __init__(self, classes: int, *, width: int = WIDTH, layers: int = LAYERS, patches: int = PATCHES) -> None:
        """Random weights; an image has so many patches."""
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH_PX, PATCH_PX)
        # The class token is the same for every image: it is the first row of what is added.
        self.constant = nn.Parameter(torch.randn(patches + 1, width) * DEVIATION)
        self.blocks = nn.ModuleList(Block(width, width // HEAD_WIDTH) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.head = nn.Linear(width, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=DEVIATION)
                nn.init.zeros_(layer.bias)
        with torch.no_grad():
            for block in self.blocks:
                block.attn.q.weight.mul_(SCALE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Only the class token reaches the last norm."""
        images, width = x.shape[0], self.constant.shape[1]
        x = self.patches(x).reshape(images, width, -1).permute(0, 2, 1)
        x = functional.pad(x, (0, 0, 1, 0)) + self.constant
        tokens = x.shape[1]
        x = x.reshape(images * tokens, width)
        for block in self.blocks:
            x = block(x, images)
        x = x.reshape(images, tokens, width)[:, :1].reshape(images, width)
        return self.head(self.norm(x))


def make(name: str, *, classes: int) -> nn.Module:
    """The network with random weights: (n, 3, 224, 224) float32 -> (n, classes) float32 logits."""
    del name
    return VisionTransformer(classes)


def rename(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """State dict of timm -> this one: class token and positions added, qkv parted, 1 / sqrt(width of a head) inside q."""
    if "pos_embed" not in state or "cls_token" not in state:
        return dict(state)
    constant = state["pos_embed"][0].clone()
    constant[0] += state["cls_token"][0, 0]
    found = {"constant": constant}
    for key, value in state.items():
        if key in ("pos_embed", "cls_token"):
            continue
        if ".attn.qkv." in key:
            q, k, v = value.chunk(3)
            for part, tensor in (("q", q * SCALE), ("k", k), ("v", v)):
                found[key.replace(".qkv.", f".{part}.")] = tensor.clone()
        else:
            found[key.replace("patch_embed.proj.", "patches.").replace(".mlp.", ".")] = value
    return found
