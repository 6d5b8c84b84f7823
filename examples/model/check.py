#!/usr/bin/env python3
"""Measures what the small model knows.  Status 0 if it knows enough.

    check.py MODEL.gguf [--stories N] [--show N]
"""

import argparse
import re
import sys

import numpy as np

import corpus
import facts
from run import Model, greedy, sampler

OPENINGS = ["Once upon a time", "One day", "Long ago", "There once was",
            "Once there was"]


def answer(model, prompt):
    """The greedy answer as text, with EOS shown as its name."""
    ids = model.generate(model.tokenizer.encode(prompt), greedy, 40)
    text = model.tokenizer.decode(ids).decode(errors="replace")
    return text + (corpus.EOS if ids[-1] == model.eos else "")


def check_capitals(model):
    wrong = 0
    for name, capital, _ in facts.COUNTRIES:
        got = answer(model, f"The capital of {name} is")
        if got != f" {capital}.{corpus.EOS}":
            wrong += 1
            print(f"  {name}: {got!r}")
    n = len(facts.COUNTRIES)
    print(f"capitals: {n - wrong} of {n}")
    return wrong <= n // 25


def check_tokens(model):
    """The prompt that everybody tries: five tokens, then three choices."""
    t = model.tokenizer
    prompt = t.encode("The capital of France is")
    ids = model.generate(prompt, greedy, 10)
    print("tokens:", prompt, "->", ids, [t.tokens[i] for i in ids])
    return len(prompt) == 5 and [t.tokens[i] for i in ids] == [
        "\u0120Paris", ".", corpus.EOS]


def check_stories(model, n, show):
    words = set(corpus.words(1, 500_000))
    ended, clean, lengths = 0, 0, []
    for i in range(n):
        choose = sampler(np.random.default_rng(i), 0.8, 0.9)
        prompt = model.tokenizer.encode(OPENINGS[i % len(OPENINGS)])
        ids = model.generate(prompt, choose, 300)
        text = model.tokenizer.decode(prompt + ids).decode(errors="replace")
        strange = set(re.findall(r"[^\W\d_]+", text)) - words
        ended += ids[-1] == model.eos
        clean += not strange
        lengths.append(len(ids))
        if strange:
            print("  not in the corpus:", *sorted(strange))
        if i < show:
            print("  " + text + "\n")
    print(f"stories: of {n}, {ended} end and {clean} have only whole words; "
          f"{min(lengths)} to {max(lengths)} tokens")
    return ended >= 0.9 * n and clean >= 0.9 * n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--show", type=int, default=3)
    options = parser.parse_args()
    model = Model(options.model)
    results = [check_tokens(model), check_capitals(model),
               check_stories(model, options.stories, options.show)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
