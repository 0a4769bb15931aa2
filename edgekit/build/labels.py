"""Names of classes: a list that the builder knows, or the folders of the user's data."""

import importlib.util
import re
from pathlib import Path

__all__ = ["imagenet_labels", "label_list"]


def label_list(known: str | None, folders: tuple[str, ...], classes: int) -> tuple[str, ...]:
    """One name a class; empty where nobody knows them.

    Args:
        known: name of a list, such as `imagenet`.
        folders: class folders of the user's data.
        classes: outputs of the network; 0 while unknown.
    """
    if known == "imagenet":
        return imagenet_labels()
    return folders if len(folders) == classes else ()


def imagenet_labels() -> tuple[str, ...]:
    """The 1,000 names of ImageNet's classes as torchvision ships them, read without importing it; empty without it."""
    found = importlib.util.find_spec("torchvision")
    for folder in (found.submodule_search_locations or ()) if found else ():
        text = (Path(folder) / "models" / "_meta.py").read_text(encoding="utf-8")
        names = re.search(r"_IMAGENET_CATEGORIES = \[(.*?)\n\]", text, re.DOTALL)
        if names:
            return tuple(re.findall(r'^\s*"(.*)",$', names.group(1), re.MULTILINE))
    return ()
