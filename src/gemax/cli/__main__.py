"""`python -m gemax.cli`."""

import sys

from gemax.cli import main

if __name__ == "__main__":
    sys.exit(main())
