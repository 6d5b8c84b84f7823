#!/usr/bin/env python3
"""A byte-level BPE tokenizer as GPT-2 has it: training, encoding, decoding.

    tokenizer.py CORPUS VOCABULARY.json [--size N]

Text is cut into pieces (words with their leading space, numbers, marks),
each piece is spelled in bytes, and the pair of neighbours that is most
frequent in the corpus becomes a new token, again and again.  Encoding applies
the same merges in the same order.  Any string of bytes can be encoded,
since the 256 single bytes are tokens too.
"""

import argparse
import collections
import json
import re

from corpus import EOS

# GPT-2's pattern is
#   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
# Python's re has no \p; what stands here is the same for ASCII, which is all
# that the corpus holds, and differs only for a few rare marks beyond it.
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d"
                    r"| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_spelling():
    """The 256 printable characters by which GPT-2 writes the bytes.

    Returns a list of (byte, character) in the order of GPT-2's vocabulary:
    first the bytes that print as themselves, then the others from U+0100 on.
    """
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return ([(b, chr(b)) for b in printable]
            + [(b, chr(256 + i)) for i, b in enumerate(others)])


BYTE_TO_CHAR = dict(byte_spelling())
CHAR_TO_BYTE = {c: b for b, c in BYTE_TO_CHAR.items()}


def pieces(data):
    """Bytes to a list of pieces, each spelled in byte characters."""
    text = data.decode("utf-8", "surrogateescape")
    return ["".join(BYTE_TO_CHAR[b]
                    for b in piece.encode("utf-8", "surrogateescape"))
            for piece in PIECES.findall(text)]


def merge_pair(symbols, pair):
    """The tuple of symbols with every occurrence of the pair made one."""
    merged, i = [], 0
    while i < len(symbols):
        if symbols[i:i + 2] == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def learn_merges(counts, wanted):
    """The most useful merges for pieces with these counts, best first.

    Stops early when every piece is a single token.
    """
    words = {piece: tuple(piece) for piece in counts}
    merges = []
    pair_counts = collections.Counter()
    where = collections.defaultdict(set)     # pair -> pieces that may have it
    for piece, symbols in words.items():
        for pair in zip(symbols, symbols[1:]):
            pair_counts[pair] += counts[piece]
            where[pair].add(piece)
    while len(merges) < wanted:
        # Ties are broken by spelling, so that every run gives the same list.
        pair = max(pair_counts, key=lambda p: (pair_counts[p], p),
                   default=None)
        if pair is None or pair_counts[pair] < 1:
            break
        merges.append(pair)
        for piece in where.pop(pair):
            old, new = words[piece], merge_pair(words[piece], pair)
            words[piece] = new
            for gone in zip(old, old[1:]):
                pair_counts[gone] -= counts[piece]
            for come in zip(new, new[1:]):
                pair_counts[come] += counts[piece]
                where[come].add(piece)
        del pair_counts[pair]
    return merges


class Tokenizer:
    """Encodes and decodes by a vocabulary: tokens in order, and merges."""

    def __init__(self, tokens, merges):
        self.tokens = tokens                       # spelled in byte characters
        self.merges = [tuple(m) for m in merges]
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.eos = self.ids[EOS]
        self.known = {}                            # piece -> ids, as a cache

    @classmethod
    def load(cls, path):
        with open(path) as file:
            return cls(**json.load(file))

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"tokens": self.tokens, "merges": self.merges}, file)

    def encode_piece(self, piece):
        symbols = tuple(piece)
        while len(symbols) > 1:
            pair = min(zip(symbols, symbols[1:]),
                       key=lambda p: self.rank.get(p, len(self.rank)))
            if pair not in self.rank:
                break
            symbols = merge_pair(symbols, pair)
        return [self.ids[s] for s in symbols]

    def encode(self, text):
        """Text (str or bytes) to ids.  EOS in the text is text."""
        data = text.encode() if isinstance(text, str) else text
        ids = []
        for piece in pieces(data):
            if piece not in self.known:
                self.known[piece] = self.encode_piece(piece)
            ids += self.known[piece]
        return ids

    def decode(self, ids):
        """Ids to bytes.  EOS has no bytes."""
        return bytes(CHAR_TO_BYTE[c] for i in ids if i != self.eos
                     for c in self.tokens[i])


def train(texts, size):
    """A tokenizer of at most `size` tokens for these texts."""
    counts = collections.Counter()
    for text in texts:
        counts.update(pieces(text.encode()))
    merges = learn_merges(counts, size - 256 - 1)
    tokens = [c for _, c in byte_spelling()] + [a + b for a, b in merges]
    return Tokenizer(tokens + [EOS], merges)


def read_documents(path):
    """The documents of a corpus file."""
    with open(path, newline="") as file:
        return file.read().split(EOS + "\n")[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("vocabulary")
    parser.add_argument("--size", type=int, default=2048)
    options = parser.parse_args()
    tokenizer = train(read_documents(options.corpus), options.size)
    tokenizer.save(options.vocabulary)
    print(f"{len(tokenizer.tokens)} tokens")


if __name__ == "__main__":
    main()
