"""A plate as PNG and SVG: legible in print, in black and white, and to the colour-blind.

The same plate gives the same bytes. No state of pyplot is touched.
"""

import io
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxgrpo.atlas.curves import Curve
from jaxgrpo.atlas.plates import WEIGHT, Panel, Plate, Surface
from jaxgrpo.core.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, and dashes that tell the curves apart without them.
_LOOKS: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 2))),
    ("#009E73", (0, (1, 1.2))),
    ("#CC79A7", (0, (6, 2, 1, 2))),
    ("#000000", (0, (2.5, 1.5))),
    ("#E69F00", (0, (8, 2, 1, 2, 1, 2))),
    ("#56B4E9", (0, (10, 3))),
    ("#7F7F7F", (0, (4, 1, 1, 1))),
)
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "path.simplify": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "jaxgrpo",
}
_WIDTH, _HEIGHT = 3.5, 2.6  # of a panel, in inches
_SMALL_WIDTH, _SMALL_HEIGHT = 2.0, 1.6
# Inches around a panel's axes: left, right, below, above; and above all of them, for the title.
_MARGINS = (0.55, 0.15, 0.45, 0.28)
_TITLE = 0.12
_DPI = 150
_MOST = 8.4  # a weight beyond it leaves the picture
_FAR = 1e3  # and is not even drawn from here on: a renderer has its own limits
_SHARED = (-1.0, 4.0)  # the weights of all small pictures


def require_matplotlib() -> None:
    """See that pictures can be drawn here.

    Raises:
      UserError: matplotlib isn't installed; says how to.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UserError(
            "the atlas is drawn by matplotlib, which is not installed: pip install "
            "'matplotlib>=3.10', or jaxgrpo with the extra `plot`"
        ) from error


def draw(plate: Plate) -> dict[str, bytes]:
    """The picture as {"svg": ..., "png": ...}."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(_STYLE):
        figure = _figure(plate)
        FigureCanvasAgg(figure)
        svg, png = io.BytesIO(), io.BytesIO()
        about = {"Title": plate.title, "Description": plate.caption}
        figure.savefig(svg, format="svg", metadata={**about, "Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=_DPI, metadata={**about, "Software": None})
    return {"svg": _smaller(svg.getvalue()), "png": png.getvalue()}


def _smaller(svg: bytes) -> bytes:
    """The same picture in half the bytes: a hundredth of a point is enough, and no indentation."""
    rounded = re.sub(rb'(?<= d=")[^"]*|(?<=translate\()[^)]*', _rounded, svg)
    return re.sub(rb" *\n\s*", b"\n", rounded).replace(b"DejaVuSans-", b"g")


def _rounded(numbers: re.Match[bytes]) -> bytes:
    return re.sub(rb"-?\d+\.\d+", lambda n: b"%.6g" % round(float(n[0]), 2), numbers[0])


def _figure(plate: Plate) -> "Figure":
    from matplotlib.figure import Figure

    small = len(plate.panels) > 3
    columns = min(plate.columns, len(plate.panels))
    rows = math.ceil(len(plate.panels) / columns)
    width, height = (_SMALL_WIDTH, _SMALL_HEIGHT) if small else (_WIDTH, _HEIGHT)
    whole = columns * width, rows * height + _TITLE
    figure = Figure(figsize=whole)
    figure.text(
        0.01, 1 - 0.05 / whole[1], textwrap.shorten(plate.title, 130), va="top", weight="bold"
    )
    # Axes are placed by hand: a layout by the size of texts differs with the release.
    left, right, below, above = _MARGINS
    for index, panel in enumerate(plate.panels):
        row, column = divmod(index, columns)
        bottom = (rows - 1 - row) * height + below
        axes = figure.add_axes(
            (
                (column * width + left) / whole[0],
                bottom / whole[1],
                (width - left - right) / whole[0],
                (height - below - above) / whole[1],
            )
        )
        _fill(axes, panel, f"panel-{index}", small=small)
        if small and (column or row < rows - 1):
            axes.set_xlabel("")
        if small and column:
            axes.set_ylabel("")
    return figure


def _fill(axes: "Axes", panel: Panel, gid: str, *, small: bool) -> None:
    axes.set_title(panel.title, loc="left", pad=3)
    axes.set_xlabel(panel.x_label, labelpad=2)
    axes.set_ylabel(_short(panel.y_label) if small else panel.y_label, labelpad=2)
    if panel.surface is not None:
        _heat_map(axes, panel, panel.surface)
        return
    for number, curve in enumerate(panel.curves):
        _line(axes, panel, curve, f"{gid}-curve-{number}")
    x = np.concatenate([_at(curve.x, panel.x_scale) for curve in panel.curves])
    axes.set_xlim(x.min(), x.max())
    _ticks(axes.xaxis, panel.x_scale, few=small)
    if panel.y_scale == "linear":
        axes.set_ylim(*(_SHARED if small else _limits(panel)))
        axes.axhline(0, color="0.6", linewidth=0.5, zorder=0)
    else:
        axes.set_ylim(-3, 3)
        _ticks(axes.yaxis, panel.y_scale, few=False)
    if panel.x_scale == "ratio":
        axes.axvline(0, color="0.6", linewidth=0.5, zorder=0)
    if not small and any(curve.label for curve in panel.curves):
        axes.legend(
            loc="upper left",
            frameon=False,
            handlelength=3.2,
            borderaxespad=0.2,
            labelspacing=0.25,
        )


def _line(axes: "Axes", panel: Panel, curve: Curve, gid: str) -> None:
    color, dashes = _LOOKS[curve.style % len(_LOOKS)]
    x, y = curve.line()
    y = np.where(np.abs(y) > _FAR, np.nan, y)
    places = ", ".join(f"{jump.x:.4g}" for jump in curve.jumps)
    label = f"{curve.label}, jumps at {places}" if curve.label and places else curve.label
    (line,) = axes.plot(
        _at(x, panel.x_scale),
        _at(y, panel.y_scale),
        color=color,
        linestyle=dashes,
        linewidth=1.3,
        label=label or "_",
    )
    line.set_gid(gid)
    for jump in curve.jumps:
        place = _at(np.array([jump.x, jump.x]), panel.x_scale)
        ends = _at(np.array([jump.before, jump.after]), panel.y_scale)
        axes.plot(place, ends, color=color, linestyle=":", linewidth=0.7, label="_")


def _heat_map(axes: "Axes", panel: Panel, surface: Surface) -> None:
    import matplotlib

    x, y = _at(surface.x, panel.x_scale), _at(surface.y, panel.y_scale)
    # cividis grows in lightness too, so that it survives a black-and-white printer. No weight is
    # white, and grey is what can't be.
    colors = matplotlib.colormaps["cividis"].with_extremes(bad="white")
    axes.set_facecolor("white")
    low, top = min(0.0, float(np.nanmin(surface.z))), float(np.nanmax(surface.z))
    extent = (x[0], x[-1], y[0], y[-1])
    impossible = np.where(np.isnan(surface.z), 0.8, np.nan)
    image = axes.imshow(
        np.ma.masked_invalid(np.where(surface.z == 0, np.nan, surface.z)),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=extent,
        cmap=colors,
        vmin=low,
        vmax=max(1.0, min(4.0, top)),
    )
    axes.imshow(
        np.ma.masked_invalid(impossible),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=extent,
        cmap="gray",
        vmin=0,
        vmax=1,
    )
    extend = "max" if top > 4 else "neither"
    axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=30, extend=extend)
    _ticks(axes.xaxis, panel.x_scale, few=False)
    _ticks(axes.yaxis, panel.y_scale, few=False)


def _short(label: str) -> str:
    return "weight" if label == WEIGHT else label


def _at(values: np.ndarray, scale: str) -> np.ndarray:
    if scale == "linear":
        return values
    return np.log2(values) if scale == "ratio" else np.log10(values)


def _ticks(axis: Any, scale: str, *, few: bool) -> None:
    """Names of round numbers, at the places of their logarithms."""
    low, high = axis.get_view_interval()
    if scale == "log":
        rounds = [10.0**k for k in range(-6, 3)] + [0.8, 0.9, 1.1, 1.25] * int(high - low < 1)
    elif high > 1.5:
        rounds = [2.0**k for k in range(-12, 13, 3 if few else 1)]
    elif high > 0.15:
        rounds = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.5]
    else:
        rounds = list(np.round(np.exp2(np.linspace(low, high, 5)), 5))
    base = math.log2 if scale == "ratio" else math.log10
    inside = [r for r in rounds if low - 1e-9 <= base(r) <= high + 1e-9]
    axis.set_ticks([base(r) for r in inside], [_name(r, scale) for r in inside])


def _name(value: float, scale: str) -> str:
    inverse = 1 / value
    if scale == "ratio" and inverse > 1.5 and inverse == int(inverse):
        return f"1/{int(inverse)}"
    return f"{value:g}"


def _limits(panel: Panel) -> tuple[float, float]:
    values = np.concatenate([curve.line()[1] for curve in panel.curves])
    values = values[np.isfinite(values)]
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    low, high = max(low, -_MOST), min(high, _MOST)
    room = 0.05 * (high - low or 1)
    # The legend stands above the curves.
    lines = sum(bool(curve.label) for curve in panel.curves)
    return low - room, high + room * (1 + 2.1 * lines)
