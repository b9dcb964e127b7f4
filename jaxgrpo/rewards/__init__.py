"""Completions to floats: built-in and user functions, run in worker processes that can be killed.

A worker loads this package too, so nothing here imports JAX or NumPy.

Example:
  >>> import jaxgrpo as jg
  >>> item = jg.rewards.RewardItem(question="1+1=", completion="#### 2", answer="2")
  >>> with jg.rewards.RewardPool(jg.rewards.RewardConfig(workers=1)) as pool:
  ...     pool.score([item])[0].total
  1.0
"""

from jaxgrpo.rewards.config import RewardConfig, RewardFunctionConfig
from jaxgrpo.rewards.functions import BUILT_IN, Verdict
from jaxgrpo.rewards.outcomes import outcome_metrics
from jaxgrpo.rewards.pool import RewardItem, RewardPool, Score

__all__ = [
    "BUILT_IN",
    "RewardConfig",
    "RewardFunctionConfig",
    "RewardItem",
    "RewardPool",
    "Score",
    "Verdict",
    "outcome_metrics",
]
