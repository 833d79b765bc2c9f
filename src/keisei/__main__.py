"""`python -m keisei` is the command `keisei`."""

from keisei.cli import main

if __name__ == "__main__":
    main()
