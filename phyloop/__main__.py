"""The command `phyloop`, also as `python -m phyloop`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; exit code 2 where another distribution has overwritten one of our packages."""
    try:
        import phyloop  # noqa: F401
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    from scenarios.cli.app import main as command

    command()


if __name__ == "__main__":
    main()
