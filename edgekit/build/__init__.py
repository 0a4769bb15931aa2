"""The builder: from a network to a bundle. Importing this package imports no torch."""
