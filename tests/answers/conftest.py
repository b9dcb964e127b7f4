"""The broken operators stand in a module of their own, which tests and command lines import."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
