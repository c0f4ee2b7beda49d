"""``python -m replay`` is the console script, for where scripts are not on the path."""

from replay.cli import main

if __name__ == "__main__":
    main()
