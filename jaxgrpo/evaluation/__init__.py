"""Held-out accuracy of a policy, with every completion kept."""

from jaxgrpo.evaluation.evaluate import EvaluatedItem, Evaluation, EvaluationConfig, evaluate
from jaxgrpo.evaluation.interval import accuracy_interval

__all__ = ["EvaluatedItem", "Evaluation", "EvaluationConfig", "accuracy_interval", "evaluate"]
