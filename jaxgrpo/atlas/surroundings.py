"""What of its surroundings a subject depends on, found by trying, and the words for a caption."""

import dataclasses

import numpy as np

from jaxgrpo.atlas.curves import ratio_grid
from jaxgrpo.atlas.scenes import DEFAULT_ARRAYS, PROB, Point, Scene, evaluate
from jaxgrpo.atlas.subjects import Subject

LENGTH = 16
"""Tokens of a sequence, where its other tokens matter."""


def numbers(subject: Subject, scene: Scene, points: Point) -> np.ndarray:
    """`evaluate` for a subject."""
    return evaluate(subject.function, subject.family, subject.needs, scene, points)


def scene_of(subject: Subject) -> Scene:
    """The batch that a loss is drawn in, by the level of its card."""
    level = subject.card.level if subject.card else "token"
    if level == "batch":
        # Likelier than the one that moves, so that covariances differ from 0.
        return Scene(rows=4, tokens=4, other_prob=0.5)
    if level == "group":
        return Scene(rows=4, tokens=4)
    return Scene(tokens=LENGTH if is_sequence_level(subject) else 1)


def is_sequence_level(subject: Subject) -> bool:
    """Whether other tokens of the sequence matter: options, or a user's loss, may decide it."""
    if subject.card and subject.card.level != "sequence":
        return False
    points = Point(log_ratio=ratio_grid(8.0))
    together = dataclasses.replace(points, together=1.0)
    alone, *others = (
        numbers(subject, Scene(tokens=length), moved)
        for length, moved in ((1, points), (LENGTH, points), (LENGTH, together))
    )
    return not all(np.allclose(alone, other, equal_nan=True) for other in others)


def depends_on_probability(subject: Subject, scene: Scene) -> bool:
    """Whether the token's probability matters beside the ratio."""
    grid = ratio_grid(8.0)
    points = Point(
        log_ratio=np.concatenate([grid, grid]), advantage=np.repeat([1.0, -1.0], len(grid))
    )
    rare, likelier = (
        numbers(subject, scene, dataclasses.replace(points, prob=prob))[:, 0]
        for prob in (0.001, PROB)
    )
    # A jump may fall on a point of the grid, and rounding decides its side.
    return bool(np.mean(np.abs(rare - likelier) > 1e-6) > 0.02)


def second_axis(subject: Subject, scene: Scene) -> str:
    """What a weight depends on beside the ratio: a field of `Point`, or "" for nothing."""
    if "entropies" in subject.needs:
        return "entropy_ratio"
    return "prob" if depends_on_probability(subject, scene) else ""


def scene_words(scene: Scene) -> str:
    """A scene as a panel's title."""
    if scene.rows > 1:
        return f"{scene.rows} rows of {scene.tokens} tokens, others at ratio 1"
    return f"{scene.tokens} tokens, others at ratio 1" if scene.tokens > 1 else ""


def caption_of(subject: Subject) -> str:
    """What is held where, and what the arrays are that the operator needs."""
    if subject.family == "penalty":
        return "Value and gradient of one token's penalty over policy / reference."
    if subject.family != "loss":
        words = f"Value over the ratio of the token's probabilities; P = {PROB:g} if not said."
        if subject.family == "divergence":
            return words
        return f"{words} The other tokens of the vocabulary share the rest as 6 : 3 : 1 in P and Q."
    scene = scene_of(subject)
    parts = [
        "What multiplies A in the step of one token's log-probability, the losses of all tokens "
        "added up",
        f"the token has probability {PROB:g} under the anchor where that is no axis",
    ]
    if scene.rows > 1:
        parts.append(
            f"the batch has {scene.rows} rows of {scene.tokens} tokens of probability "
            f"{scene.other_prob:g} at ratio 1, with advantages of alternating sign"
        )
    elif scene.tokens > 1:
        parts.append(
            f"it is the first of {scene.tokens} tokens, of which the others are held at ratio 1 "
            "where they don't move together"
        )
    given = [f"{option} = {value}" for option, value in subject.options.items()]
    parts += [", ".join(given)] if given else []
    if not is_sequence_level(subject) and second_axis(subject, scene):
        parts.append("white is no weight at all, grey a probability of 1 or more")
    parts += [words for need in subject.needs if (words := DEFAULT_ARRAYS[need][1])]
    return "; ".join(parts) + "."
