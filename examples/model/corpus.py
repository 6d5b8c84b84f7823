#!/usr/bin/env python3
"""The text that the small model learns: facts, stories and JSON records.

    corpus.py [--seed N] [--tokens N] > corpus.txt
    corpus.py --words        every word that the corpus can hold, one a line
    corpus.py --countries    country, tab, capital, one pair a line

Every document ends with the end-of-sequence text and a line break, which are
not part of it.  The same seed gives the same bytes.
"""

import argparse
import random
import re

import facts
import records
import stories

EOS = "<|endoftext|>"

# The share of each kind in all tokens.  A small model learns a country's
# capital only from many repetitions, and a fact is much shorter than a story.
SHARES = [
    (0.26, facts.country),
    (0.04, facts.country_list),
    (0.03, facts.animal),
    (0.02, facts.colour),
    (0.03, facts.number),
    (0.03, facts.calendar),
    (0.52, stories.story),
    (0.07, records.document),
]


def rough_tokens(document):
    """About how many tokens a document has: its words, marks, and EOS."""
    return len(re.findall(r"\w+|[^\w\s]", document)) + 1


def documents(seed, tokens):
    """Yields documents, mixed by SHARES, until about `tokens` are made."""
    r = random.Random(seed)
    made = [0] * len(SHARES)
    while sum(made) < tokens:
        # The kind that is farthest behind its share comes next; a little
        # chance keeps the order from being a pattern that could be learned.
        i = min(range(len(SHARES)),
                key=lambda k: made[k] / SHARES[k][0] * r.uniform(0.9, 1.1))
        document = SHARES[i][1](r)
        made[i] += rough_tokens(document)
        yield document


def words(seed, tokens):
    found = set()
    for document in documents(seed, tokens):
        found.update(re.findall(r"[A-Za-z]+", document))
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=4_000_000,
                        help="about how many tokens to make")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--countries", action="store_true")
    options = parser.parse_args()
    if options.words:
        # A small part of the corpus already holds every word.
        print("\n".join(words(options.seed, 500_000)))
    elif options.countries:
        for name, capital, _ in facts.COUNTRIES:
            print(f"{name}\t{capital}")
    else:
        for document in documents(options.seed, options.tokens):
            print(document + EOS)


if __name__ == "__main__":
    main()
