"""``python -m lawscope``."""

from lawscope.cli import main

if __name__ == "__main__":
    main()
