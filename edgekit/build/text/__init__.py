"""Transformers that read text: their families, the form in which they are exported, and how they are lowered."""
