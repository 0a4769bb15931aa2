"""`python -m edgekit`."""

from edgekit.cli import main

if __name__ == "__main__":
    main()
