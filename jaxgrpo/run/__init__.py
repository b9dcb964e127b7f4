"""The training loop that ties the rooms together, and what it tells whoever watches."""

from jaxgrpo.run.observer import Observer
from jaxgrpo.run.plan import Plan, make_plan
from jaxgrpo.run.policy import LoadedPolicy, load_policy
from jaxgrpo.run.program import Program, build_program
from jaxgrpo.run.train import train

__all__ = [
    "LoadedPolicy",
    "Observer",
    "Plan",
    "Program",
    "build_program",
    "load_policy",
    "make_plan",
    "train",
]
