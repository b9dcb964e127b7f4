import json

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

import jaxgrpo as jg
from jaxgrpo.core.errors import UserError

VOCABULARY = {"hello": 0, "world": 1, "[UNK]": 2, "[END]": 3, "[TURN]": 4, "[PAD]": 5, "far": 9}


@pytest.fixture
def folder(tmp_path):
    fast = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.add_special_tokens([AddedToken(t, special=True) for t in ("[END]", "[TURN]", "[PAD]")])
    fast.post_processor = processors.TemplateProcessing(
        single="$A [END]", special_tokens=[("[END]", 3)]
    )
    fast.enable_truncation(2)
    fast.enable_padding(length=8, pad_id=5, pad_token="[PAD]")
    fast.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, "tokenizer_config.json", {"eos_token": "[END]", "pad_token": "[PAD]"})
    return tmp_path


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value))


def test_nothing_is_added_cut_or_padded(folder):
    tokenizer = jg.tokenizers.load(folder)
    assert tokenizer.encode("hello world hello far") == [0, 1, 0, 9]
    assert tokenizer.decode([0, 1, 3, 5, 5]) == "hello world"


def test_vocab_size_covers_gaps(folder):
    assert jg.tokenizers.load(folder).vocab_size == 10


def test_pad_and_stop_come_from_the_configs(folder):
    tokenizer = jg.tokenizers.load(folder)
    assert (tokenizer.pad_id, tokenizer.stop_ids) == (5, (3,))


def test_stop_ids_of_all_configs_are_joined(folder):
    write(folder, "generation_config.json", {"eos_token_id": [4, 3], "pad_token_id": 3})
    tokenizer = jg.tokenizers.load(folder)
    assert (tokenizer.pad_id, tokenizer.stop_ids) == (3, (4, 3))


def test_pad_falls_back_to_eos(folder):
    write(folder, "tokenizer_config.json", {"eos_token": {"content": "[TURN]"}, "pad_token": None})
    tokenizer = jg.tokenizers.load(folder)
    assert (tokenizer.pad_id, tokenizer.stop_ids) == (4, (4,))


def test_special_tokens_map_is_read(folder):
    (folder / "tokenizer_config.json").unlink()
    write(folder, "special_tokens_map.json", {"eos_token": "[TURN]"})
    assert jg.tokenizers.load(folder).stop_ids == (4,)


def test_an_id_outside_the_vocabulary_is_no_stop_id(folder):
    write(folder, "generation_config.json", {"eos_token_id": 4711})
    assert jg.tokenizers.load(folder).stop_ids == (3,)


def test_save_writes_the_same_bytes(folder, tmp_path):
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    copy = tmp_path / "copy"
    jg.tokenizers.load(folder).save(copy)
    names = ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(path.name for path in copy.iterdir()) == names
    assert all((copy / name).read_bytes() == (folder / name).read_bytes() for name in names)


def test_stop_ids_survive_save(folder, tmp_path):
    write(folder, "generation_config.json", {"eos_token_id": [4, 3]})
    jg.tokenizers.load(folder).save(tmp_path / "copy")
    assert jg.tokenizers.load(tmp_path / "copy").stop_ids == (4, 3)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_broken_file_is_named(folder, name):
    (folder / name).write_text('{"truncated": ')
    with pytest.raises(UserError, match=name):
        jg.tokenizers.load(folder)


def test_a_folder_without_end_token_is_refused(folder):
    write(folder, "tokenizer_config.json", {"pad_token": "[PAD]"})
    with pytest.raises(UserError, match="eos"):
        jg.tokenizers.load(folder)


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        jg.tokenizers.load(tmp_path)
