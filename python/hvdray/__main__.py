# SPDX-License-Identifier: Apache-2.0
"""`python -m hvdray run …` is `hvdray run …`, with the program of this Python's environment."""

from __future__ import annotations

import os
import sys

from ._binary import find_binary
from ._errors import HvdrayError


def main() -> int:
    """Becomes the program; returns an exit code of docs/errors.md if that is not possible."""
    try:
        program = find_binary()
        os.execv(program, ["hvdray", *sys.argv[1:]])
    except (HvdrayError, OSError) as error:
        print(f"hvdray: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
