"""`jaxgrpo score`."""

import json
import math

import jax
import numpy as np
import pytest

from jaxgrpo.models import logits
from jaxgrpo.run import load_policy

# Log-probs of the hand-made model: one logit of 8 among 99, the others 0.
LIKELY = 8 - math.log(math.exp(8) + 98)
UNLIKELY = -math.log(math.exp(8) + 98)


def test_every_token_and_the_totals(jaxgrpo, five):
    told = jaxgrpo("score", five, "--prompt", "2+3=", "--completion", "57")
    assert told.code == 0
    header, first, second, total = told.out.splitlines()
    assert header.split() == ["nats", "token", "text"]
    assert first.split() == [f"{LIKELY:.4f}", "25", "'5'"]
    # After "5" comes the end, or so the model says.
    assert second.split() == [f"{UNLIKELY:.4f}", "27", "'7'"]
    nats = LIKELY + UNLIKELY
    assert total == f"{nats:.4f} nats in 2 tokens, perplexity {math.exp(-nats / 2):.4f}"


def test_the_stop_token_is_scored_where_asked(jaxgrpo, five):
    told = jaxgrpo("score", five, "--prompt", "2+3=", "--completion", "5", "--end", "--json")
    row = json.loads(told.out)
    assert row["tokens"] == [25, 1]
    assert row["log_probs"] == pytest.approx([LIKELY, LIKELY], abs=1e-6)
    assert row["total_nats"] == pytest.approx(2 * LIKELY, abs=1e-6)
    assert row["perplexity"] == pytest.approx(math.exp(-LIKELY), abs=1e-6)


def test_a_file_of_pairs_gives_the_numbers_of_the_bare_model(jaxgrpo, run, tmp_path):
    pairs = [("1+2=", "3"), ("12+34=", "#### 46"), ("9+9=", "eighteen, they say"), ("1", "1")]
    data = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"prompt": p, "completion": c}) for p, c in pairs]
    data.write_text("\n".join(lines))
    told = jaxgrpo("score", run, "--data", data, "--json")
    assert told.err == "scored 4 of 4\n"
    loaded = load_policy(run)
    for (prompt, completion), line in zip(pairs, told.out.splitlines(), strict=True):
        before = loaded.tokenizer.encode(f"Q:{prompt}")
        after = loaded.tokenizer.encode(completion)
        # The row alone, without padding, bucket or batch.
        whole = np.asarray(logits(loaded.policy, np.array([[*before, *after]])))[0]
        rows = np.asarray(jax.nn.log_softmax(whole.astype(np.float64)))
        wanted = [rows[len(before) + i - 1, token] for i, token in enumerate(after)]
        row = json.loads(line)
        assert (row["prompt"], row["completion"], row["tokens"]) == (prompt, completion, after)
        assert row["log_probs"] == pytest.approx(wanted, abs=2e-5)
        assert row["total_nats"] == pytest.approx(sum(wanted), abs=1e-4)

    told = jaxgrpo("score", run, "--data", data).out.splitlines()
    assert len(told) == 5
    assert told[-1].startswith("all: ")
    assert "in 27 tokens" in told[-1]
