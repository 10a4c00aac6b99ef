"""The command `phyloop`, also as `python -m phyloop`."""

from scenarios.cli.app import main

if __name__ == "__main__":
    main()
