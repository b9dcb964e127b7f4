"""A gold that can't be graded is refused before a run writes anything."""

import json

import pytest

from jaxgrpo.config import parse
from jaxgrpo.core.errors import UserError
from jaxgrpo.run.program import build_program

CONFIG = """\
model: {{decoder: {{layers: 1, hidden_size: 8, heads: 1, kv_heads: 1, head_size: 8, mlp_size: 8}}}}
data: {{train: {{path: "{path}"}}, max_prompt_tokens: 16}}
rollout: {{prompts_per_step: 1, group_size: 2}}
rewards: {{functions: [{{name: {reward}}}]}}
mesh: {{model: 8}}
run: {{directory: somewhere}}
"""


@pytest.fixture
def config(tmp_path):
    golds = ["1/2", r"\frac{1}{", "Monday", r"\sqrt{"]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"question": "?", "answer": gold}) + "\n" for gold in golds))
    return lambda reward: parse(CONFIG.format(path=path, reward=reward))


def test_an_unparseable_gold_is_named(config):
    with pytest.raises(UserError) as caught:
        build_program(config("answer"))
    message = str(caught.value)
    assert message.startswith("train.jsonl:2 and 1 more: the gold answer '\\\\frac{1}{'")
    assert "jaxgrpo verify --audit" in message


def test_other_rewards_do_not_care(config):
    assert len(build_program(config("format")).train_prompts) == 4
