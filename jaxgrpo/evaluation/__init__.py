"""Held-out accuracy of a policy, with every completion kept."""

from jaxgrpo.evaluation.evaluate import EvaluatedItem, Evaluation, EvaluationConfig, evaluate

__all__ = ["EvaluatedItem", "Evaluation", "EvaluationConfig", "evaluate"]
