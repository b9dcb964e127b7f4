"""What is written: pictures of everything, a page that stands alone, numbers, the same bytes."""

import html.parser
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np
import pytest

from jaxgrpo.atlas import draw_book, plan_book
from jaxgrpo.atlas.subjects import FAMILIES
from jaxgrpo.cli.main import main
from jaxgrpo.clipping import ratio_interval

REPOSITORY = pathlib.Path(__file__).parents[2]
README_FIGURE = REPOSITORY / "jaxgrpo/atlas/figures/atr_ppo_clip.svg"
SVG = "{http://www.w3.org/2000/svg}"

USERS = """
import jax.numpy as jnp

def band(log_probs, anchor_log_probs, advantages, *, where=None, width: float = 0.2):
    ratios = jnp.exp(jnp.where(where, log_probs - anchor_log_probs, 0))
    return jnp.where(abs(ratios - 1) <= width, -advantages[:, None] * ratios, 0)

def row_mean(log_probs, anchor_log_probs, advantages, *, where=None):
    ratios = jnp.exp((log_probs - anchor_log_probs).mean(-1, keepdims=True))
    return jnp.broadcast_to(-advantages[:, None] * ratios, log_probs.shape)

def pull(log_probs, reference_log_probs, *, where=None):
    return (log_probs - reference_log_probs) ** 2

def needy(log_probs, anchor_log_probs, advantages, *, where=None, moon):
    return log_probs

def broken(log_probs, anchor_log_probs, advantages, *, where=None):
    raise ValueError("not today")

def alone(log_probs):
    return log_probs
"""


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.ids = [], set()

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids.add(named.get("id"))
        self.found += [named[key] for key in ("src", "href") if key in named]


@pytest.fixture
def users(tmp_path, monkeypatch):
    (tmp_path / "atlas_users.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def links_of(page):
    links = Links()
    links.feed(page.read_text())
    return links


def numbers_of(folder):
    return {
        plate["name"]: plate for plate in json.loads((folder / "atlas.json").read_text())["plates"]
    }


@pytest.mark.slow
def test_the_whole_atlas(tmp_path, capsys):
    assert main(["atlas", "--out", str(tmp_path / "atlas")]) == 0
    folder = tmp_path / "atlas"
    names = [name for registry in FAMILIES.values() for name in registry.names()]
    plates = numbers_of(folder)
    assert set(names) | {"intervals"} < set(plates)
    links = links_of(folder / "index.html")
    assert {f"{name}.svg" for name in names} < set(links.found)
    told = capsys.readouterr().out
    assert "ETA" in told
    assert told.endswith("index.html\n")
    # Something is drawn in every panel: no curve is all gaps.
    for plate in plates.values():
        for panel in plate["panels"]:
            for curve in panel["curves"]:
                # kl1 has no upper end.
                assert any(y is not None for y in curve["y"]) or curve["label"] == "kl1"


def test_the_page_refers_only_to_what_is_there(tmp_path):
    files = draw_book(plan_book(["atr", "dppo_tv", "k3", "kl3"]), tmp_path / "new" / "atlas")
    folder = tmp_path / "new" / "atlas"
    assert sorted(files) == sorted(folder.iterdir())
    links = links_of(folder / "index.html")
    for target in links.found:
        if target.startswith("#"):
            assert target[1:] in links.ids
        else:
            assert re.fullmatch(r"[\w.-]+", target), "beside the page, and nowhere else"
            assert (folder / target).is_file()
    pictures = {path.name for path in folder.iterdir()} - {"index.html", "atlas.json"}
    assert pictures == set(links.found) & pictures
    assert {"compare-loss.svg", "intervals.svg"} < pictures
    assert "w - 1 - log w &lt;= delta" in (folder / "index.html").read_text()
    # Nothing in the pictures is fetched either.
    for picture in folder.glob("*.svg"):
        for element in xml.etree.ElementTree.parse(picture).iter():
            for name, value in element.attrib.items():
                if name.endswith("href"):
                    assert value.startswith(("#", "data:"))


def test_the_numbers_jump_at_the_ends_of_the_interval(tmp_path):
    draw_book(plan_book(["atr,delta=0.1"]), tmp_path)
    positive, negative = numbers_of(tmp_path)["atr-delta-0.1"]["panels"][0]["curves"]
    low, high = ratio_interval("kl3", 0.1)
    assert [jump["x"] for jump in positive["jumps"]] == pytest.approx([high], rel=1e-12)
    assert [jump["x"] for jump in negative["jumps"]] == pytest.approx([low], rel=1e-12)


def test_the_same_command_writes_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        draw_book(plan_book(["atr", "dppo_tv"]), tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    svg = (tmp_path / "one" / "atr.svg").read_text()
    assert "<dc:date>" not in svg


def drawn_curves(path):
    """Points of the curves of an SVG, by their id; [n, 2], in points of the page."""
    found = {}
    for group in xml.etree.ElementTree.parse(path).iter(f"{SVG}g"):
        if "-curve-" in group.get("id", ""):
            (line,) = group.iter(f"{SVG}path")
            numbers = re.findall(r"-?\d+(?:\.\d+)?", line.get("d"))
            found[group.get("id")] = np.array(numbers, float).reshape(-1, 2)
    return found


def test_the_figure_of_the_readme_is_what_its_command_draws(tmp_path):
    (command,) = re.findall(
        r"^jaxgrpo (atlas .*?) +#", (REPOSITORY / "README.md").read_text(), re.M
    )
    words = [tmp_path if word == "atlas" else word for word in command.split()[1:]]
    assert main(["atlas", *map(str, words)]) == 0
    committed, drawn = drawn_curves(README_FIGURE), drawn_curves(tmp_path / "compare-loss.svg")
    assert committed.keys() == drawn.keys()
    assert len(drawn) == 4
    for name, points in drawn.items():
        np.testing.assert_allclose(committed[name], points, atol=0.02)
    assert README_FIGURE.stat().st_size < 60_000


def test_own_functions_are_drawn(users):
    names = ["atlas_users:band,width=0.5", "atlas_users:row_mean", "atlas_users:pull"]
    assert main(["atlas", *names, "--out", "pictures"]) == 0
    band, row_mean, pull = (
        numbers_of(users / "pictures")[name]
        for name in (
            "atlas_users-band-width-0.5",
            "atlas_users-row_mean",
            "atlas_users-pull",
        )
    )
    positive, _ = band["panels"][0]["curves"]
    assert [jump["x"] for jump in positive["jumps"]] == pytest.approx([0.5, 1.5], rel=1e-12)
    # Other tokens matter, which is found out by trying.
    assert [len(panel["curves"]) for panel in row_mean["panels"]] == [2, 5, 5]
    assert pull["family"] == "penalty"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (
            ["atr", "ppo_clap"],
            "divergence named 'ppo_clap'; did you mean 'ppo_clip'?",
        ),
        (["atr,detla=1"], "has no option detla; did you mean 'delta'?"),
        (["atr,delta=wide"], "delta must be"),
        (["atr,delta"], "wanted NAME,OPTION=VALUE, got 'delta'"),
        (["atr,delta=-1"], "delta must be at least 0, got -1"),
        (["atlas_nowhere:f"], "cannot be imported"),
        (["atlas_users:nothing"], "is not in that module"),
        (["atlas_users:needy"], "needs moon, which the atlas has no default for"),
        (["atlas_users:broken"], "ValueError: not today"),
        (["atlas_users:alone"], "got 1 positional arguments"),
        (["atr", "--span", "1"], "wanted a number above 1"),
        (["atr", "--span", "nan"], "wanted a number above 1"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(words, fragment, users, capsys):
    assert main(["atlas", *words, "--out", "pictures"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert fragment in told.err
    assert not (users / "pictures").exists()


def test_a_file_in_the_way(users, capsys):
    (users / "pictures").write_text("mine")
    assert main(["atlas", "atr", "--out", "pictures"]) == 2
    assert "wanted a folder" in capsys.readouterr().err


def test_matplotlib_is_asked_for_only_when_something_is_drawn(tmp_path):
    script = (
        "import sys\n"
        "import jaxgrpo.atlas, jaxgrpo.atlas.drawing, jaxgrpo.cli.atlas\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None  # as if it were not installed\n"
        "from jaxgrpo.cli.main import main\n"
        f"sys.exit(main(['atlas', 'atr', '--out', {str(tmp_path / 'atlas')!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "pip install" in done.stderr
    assert not (tmp_path / "atlas").exists()
