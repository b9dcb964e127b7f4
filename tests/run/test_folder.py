import pytest

from jaxgrpo.config import parse
from jaxgrpo.core.errors import HostError, UserError
from jaxgrpo.run.folder import RunFolder

MINIMAL = """\
model: {decoder: {layers: 1}}
data: {train: {task: arithmetic}, template: "Größe {question}"}
rewards: {}
run: {directory: unset}
"""


def experiment(folder):
    return parse(MINIMAL, ["--run.directory", str(folder)])


@pytest.mark.parametrize("name", ["plain", "with spaces", "größe-中", "a/b/c"])
def test_a_folder_is_claimed_and_claimed_again(tmp_path, name):
    for _ in range(2):
        with RunFolder(experiment(tmp_path / name)) as folder:
            assert "Größe" in (folder.path / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"", "no mapping"),
        (b"- 1\n", "no mapping"),
        (b"\xd2\xff\x00", "UnicodeDecodeError"),
        (b"seed: [", "ParserError"),
        (None, "IsADirectoryError"),
    ],
)
def test_a_damaged_config_is_named_and_left_alone(tmp_path, damage, says):
    saved = tmp_path / "config.yaml"
    if damage is None:
        saved.mkdir()
    else:
        saved.write_bytes(damage)
    with pytest.raises(HostError, match=rf"config\.yaml is damaged \({says}"):
        RunFolder(experiment(tmp_path)).__enter__()
    assert saved.is_dir() if damage is None else saved.read_bytes() == damage


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file", "file/run"):
        with pytest.raises(HostError, match=r"run folder .*(File exists|Not a directory)"):
            RunFolder(experiment(tmp_path / name)).__enter__()


def test_a_name_that_no_folder_can_have_is_refused():
    with pytest.raises(UserError, match="embedded null"):
        RunFolder(parse(MINIMAL, ["--run.directory", '"a\\0b"'])).__enter__()


def test_one_run_at_a_time(tmp_path):
    with (
        RunFolder(experiment(tmp_path)),
        pytest.raises(UserError, match="in use by another process"),
    ):
        RunFolder(experiment(tmp_path)).__enter__()


@pytest.mark.parametrize("text", ["", "garbage", "[]", '{"steps": null}', '{"steps": "9"}', "3"])
def test_a_summary_that_says_nothing_does_not_end_a_run(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    for _ in range(2):  # the second time there is a config to go on with, so that it is looked at
        with RunFolder(experiment(tmp_path)) as folder:
            assert folder.path == tmp_path
