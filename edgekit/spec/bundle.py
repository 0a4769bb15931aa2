"""Bundles: open, write, pack. The format is docs/bundle-format.md."""

from edgekit.spec.bundle_reader import BundleReader, open_bundle
from edgekit.spec.bundle_writer import manifest_bytes, pack_zip, write_bundle
from edgekit.spec.check import check_manifest, parse_manifest

__all__ = ["BundleReader", "check_manifest", "manifest_bytes", "open_bundle", "pack_zip", "parse_manifest", "write_bundle"]
