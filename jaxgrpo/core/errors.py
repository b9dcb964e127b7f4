"""What can go wrong, and the exit code that says so to a scheduler."""

import difflib
import enum
from collections.abc import Iterable


class ExitCode(enum.IntEnum):
    """Exit codes of the command line; a scheduler restarts on 75 and 76 only."""

    DONE = 0
    FAILURE = 1
    USER = 2
    TERMINATED = 75
    HANG = 76
    HOST = 77
    NUMBERS = 78
    COMPLETE = 79


class JaxgrpoError(Exception):
    """Base of the errors that the command line prints as one line and turns into an exit code."""

    exit_code = ExitCode.FAILURE


class UserError(JaxgrpoError):
    """A bad config, data file or command line; raised before anything is written."""

    exit_code = ExitCode.USER


class Terminated(JaxgrpoError):
    """Told to stop, and stopped after a good save: the same command goes on from there."""

    exit_code = ExitCode.TERMINATED


class HostError(JaxgrpoError):
    """Something is wrong with this host: disk, permissions, a missing device."""

    exit_code = ExitCode.HOST


class NumbersError(JaxgrpoError):
    """The run stopped itself on its numbers: a nan, or too many failed rewards."""

    exit_code = ExitCode.NUMBERS


class AlreadyComplete(JaxgrpoError):
    """There is nothing to do: the run in this folder was finished before."""

    exit_code = ExitCode.COMPLETE


def closest(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a clause for an error message, or nothing.

    Example:
      >>> closest("kl4", ["kl3", "tv"])
      "; did you mean 'kl3'?"
      >>> closest("zebra", ["kl3", "tv"])
      ''
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
