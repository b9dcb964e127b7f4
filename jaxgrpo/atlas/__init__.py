"""Pictures of the operators: what a loss, a penalty or a divergence does with a token's ratio.

Every weight is autodiff of the operator itself, so that a picture can't tell another story than the
code. matplotlib is imported only when something is drawn.
"""

from jaxgrpo.atlas.book import draw_book, plan_book
from jaxgrpo.atlas.curves import Curve, Jump, trace_curves
from jaxgrpo.atlas.plates import Panel, Plate, Surface, plate_of
from jaxgrpo.atlas.subjects import Subject, all_subjects, find_subject

__all__ = [
    "Curve",
    "Jump",
    "Panel",
    "Plate",
    "Subject",
    "Surface",
    "all_subjects",
    "draw_book",
    "find_subject",
    "plan_book",
    "plate_of",
    "trace_curves",
]
