#!/usr/bin/env python3
"""Beam search once more, in the plainest way, over logits that the model's programs give; and over all texts.

    beam.py STATE_TOKENS WIDTH N_BEST LIMIT PENALTY STOPPING ALLOWED EOG     what beam must find
    beam.py --all ...                                                        the best of all texts there are

STATE_TOKENS and ALLOWED are ids separated by commas (ALLOWED "-": all).  Prints a line for each hypothesis: score, and ids.
"""

import math
import struct
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import stream  # noqa: E402

prompt, width, n_best, limit, penalty, stopping, allowed, eog = sys.argv[-8:]
every = sys.argv[1] == "--all"
prompt = [int(x) for x in prompt.split(",")]
allowed = None if allowed == "-" else [int(x) for x in allowed.split(",")]
width, n_best, limit, penalty, eog = int(width), int(n_best), int(limit), float(penalty), int(eog)
known = {}


def log_probabilities(texts):
    """Of each text (a tuple of ids) a list: of every token that may follow, its log-probability."""
    asked = [text for text in texts if text not in known]
    if asked:
        records = b"".join(stream.tokens(prompt + list(text), sequence=i) for i, text in enumerate(asked))
        data = subprocess.run(["prefill"], input=records, stdout=subprocess.PIPE, check=True).stdout
        at = 0
        while at < len(data):
            kind, sequence, count, length = data[at + 4], *struct.unpack_from("<I4xI4xQ", data, at + 8)
            if kind == stream.LOGITS:
                logits = struct.unpack_from(f"<{count}f", data, at + 64)
                ids = range(count) if allowed is None else allowed
                best = max(logits[i] for i in ids)
                total = best + math.log(math.fsum(math.exp(logits[i] - best) for i in ids))
                known[asked[sequence]] = {i: logits[i] - total for i in ids}
            at += 64 + length + -length % 64
    return [known[text] for text in texts]


def score(total, length):
    return total / length ** penalty


def search():
    running, kept, length = [(0.0, ())], [], 0
    while True:
        candidates = []
        for beam, ((total, text), following) in enumerate(zip(running, log_probabilities([t for _, t in running]))):
            candidates += [(-(total + p), beam, -p, i, text + (i,)) for i, p in following.items()]
        candidates.sort()
        running, length = [], length + 1
        for rank, (total, _, _, i, text) in enumerate(candidates):
            if len(running) == width:
                break
            if i != eog:
                running.append((-total, text))
            elif rank < width:
                kept.append((score(-total, length), text))
        if length == limit:
            kept += [(score(total, length), text) for total, text in running]
            running = []
        kept.sort(key=lambda k: -k[0])
        del kept[width:]
        full = len(kept) == width
        if not running or (full and (stopping == "always" or width == 1)):
            return kept
        if stopping == "auto" and full and score(running[0][0], length) <= kept[-1][0]:
            return kept
        if stopping == "never" and len(kept) >= n_best:
            if score(running[0][0], limit if penalty > 0 else length) <= kept[n_best - 1][0]:
                return kept


def all_texts():
    found, running = [], [(0.0, ())]
    for length in range(1, limit + 1):
        following = log_probabilities([text for _, text in running])
        longer = [(total + p, text + (i,)) for (total, text), f in zip(running, following) for i, p in f.items()]
        running = [x for x in longer if x[1][-1] != eog]
        found += [(score(total, length), text) for total, text in longer if text[-1] == eog or length == limit]
    return sorted(found, key=lambda k: -k[0])


for value, text in (all_texts() if every else search())[:n_best]:
    print(f"{value:.9f}", ",".join(map(str, text)))
