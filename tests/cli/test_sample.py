"""`jaxgrpo sample`."""


def test_one_completion_is_printed_alone(jaxgrpo, five):
    assert jaxgrpo("sample", five, "1+2=", "--temperature", "0").out == "5\n"


def test_several_are_told_apart(jaxgrpo, five):
    told = jaxgrpo("sample", five, "1+2=", "x", "-n", "2", "--top-k", "1")
    assert told.code == 0
    assert told.out.splitlines() == [
        *["--- '1+2=', 1 of 2", "5", "--- '1+2=', 2 of 2", "5"],
        *["--- 'x', 1 of 2", "5", "--- 'x', 2 of 2", "5"],
    ]
    assert told.err == ""


def test_a_cut_completion_says_so(jaxgrpo, five):
    told = jaxgrpo("sample", five, "x", "--max-new-tokens", "1", "--temperature", "0")
    assert (told.out, told.err) == ("5\n", "(cut after 1 tokens)\n")


def test_a_seed_decides_the_text(jaxgrpo, run):
    first = jaxgrpo("sample", run, "1+2=", "--seed", "7", "-n", "4")
    assert first.code == 0
    assert first.out == jaxgrpo("sample", run, "1+2=", "--seed", "7", "-n", "4").out
    assert first.out != jaxgrpo("sample", run, "1+2=", "--seed", "8", "-n", "4").out
    # The run's own limit: 8 tokens, some of which an untrained policy cuts.
    assert "(cut after 8 tokens)" in first.err


def test_an_export_continues_as_the_run_does_after_its_template(jaxgrpo, run, exported):
    options = ["--temperature", "0", "--max-new-tokens", "12"]
    of_run = jaxgrpo("sample", run, "12+34=", *options)
    of_folder = jaxgrpo("sample", exported, "Q:12+34=", *options)
    assert of_run == of_folder
    assert len(of_run.out) > 2
