"""`python -m meritfair` is the command line."""

from meritfair.cli import main

if __name__ == "__main__":
    main()
