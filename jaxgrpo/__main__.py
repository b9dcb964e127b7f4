"""`python -m jaxgrpo` is `jaxgrpo`."""

import sys

from jaxgrpo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
