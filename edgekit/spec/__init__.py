"""What a bundle, a target and a report are: types, schemas, digests, errors. Needs the standard library only.

Names are imported from the modules (`edgekit.spec.bundle`), so that an import costs only what it uses.
"""

__all__: tuple[str, ...] = ()
