import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxgrpo as jg
from jaxgrpo.core.errors import UserError
from jaxgrpo.tokenizers import CharacterTokenizer

PRINTABLE = "\n" + "".join(chr(code) for code in range(32, 127))


def test_ids_are_fixed():
    tokenizer = CharacterTokenizer()
    assert (tokenizer.pad_id, tokenizer.stop_ids, tokenizer.vocab_size) == (0, (1,), 99)
    assert tokenizer.encode("\n ~") == [3, 4, 98]
    assert tokenizer.encode("0A") == [3 + 1 + 48 - 32, 3 + 1 + 65 - 32]


@given(st.text(alphabet=PRINTABLE))
def test_printable_text_survives(text):
    tokenizer = CharacterTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text())
def test_every_text_has_ids_in_range(text):
    tokenizer = CharacterTokenizer()
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert all(2 <= i < tokenizer.vocab_size for i in ids)


def test_special_ids_vanish_but_unknown_stays_visible():
    tokenizer = CharacterTokenizer()
    six, three = tokenizer.encode("63")
    assert tokenizer.decode([0, six, 1, three]) == "63"
    assert tokenizer.decode([six, 2, three]) != "63"
    # A model with a wider vocabulary may choose an id that no character has.
    assert tokenizer.decode([six, 99, 1000, three]) == "6\ufffd\ufffd3"
    assert tokenizer.encode("\N{GREEK SMALL LETTER PI}\t") == [2, 2]


def test_spelling_a_special_token_is_only_characters():
    ids = CharacterTokenizer().encode("<eos>")
    assert len(ids) == 5
    assert 1 not in ids


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("characters")
    CharacterTokenizer().save(folder)
    return folder


TEXTS = ["385+247=", "a\nb  c ", string.printable, "\u03c0 \ufffd", "<eos><pad>", "", "  "]


@pytest.mark.parametrize("text", TEXTS)
def test_saved_folder_loads_here_with_identical_ids(saved, text):
    ours, loaded = CharacterTokenizer(), jg.tokenizers.load(saved)
    assert loaded.encode(text) == ours.encode(text)
    ids = [*ours.encode(text), 1, 0, 0]
    assert loaded.decode(ids) == ours.decode(ids)
    assert (loaded.vocab_size, loaded.pad_id, loaded.stop_ids) == (99, 0, (1,))


def test_saved_folder_loads_in_transformers_with_identical_ids(saved):
    import transformers

    theirs, ours = transformers.AutoTokenizer.from_pretrained(saved), CharacterTokenizer()
    assert (len(theirs), theirs.pad_token_id, theirs.eos_token_id) == (99, 0, 1)
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs(text).input_ids == ids
        assert theirs.decode([*ids, 1, 0], skip_special_tokens=True) == ours.decode(ids)


@pytest.mark.parametrize("name", ["character", "/no/such/folder"])
def test_unknown_name_is_a_user_error(name):
    with pytest.raises(UserError, match=r"'characters' or a folder.*" + name):
        jg.tokenizers.load(name)
