"""`python -m toolyard` is `toolyard`."""

from toolyard.cli import main

if __name__ == "__main__":
    main(prog_name="toolyard")
