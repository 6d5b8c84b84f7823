#!/usr/bin/env python3
"""Makes record streams for the tests, and shows them: a second reader and writer of unroll-stream(5),
written apart from the C library.

    stream.py 'model(n_context=8)' 'tokens([1, 2])' 'logits({3: 1.5})' > FILE
    stream.py --show FILE          one line for each record
    stream.py --logits FILE        the numbers of each LOGITS record in one line
"""

import struct
import sys
import zlib

MODEL, TOKENS, CACHE, LOGITS, FORK, END = range(1, 7)
RAW, LOGPROBS = 128, 129
NAMES = {MODEL: "MODEL", TOKENS: "TOKENS", CACHE: "CACHE", LOGITS: "LOGITS", FORK: "FORK", END: "END",
         RAW: "RAW", LOGPROBS: "LOGPROBS"}
DEFLATED, HELD, OPEN, GENERATED = 1, 2, 4, 8
APPEND = NONE = 0xFFFFFFFF
REASONS = ["eos", "stop", "length", "context", "dropped", "error"]
FACTS = dict(n_layers=1, n_kv_heads=1, key_dim=2, value_dim=2, element=1, n_logits=10, n_vocabulary=10,
             n_context=100, model_context=100, bos=NONE, rope_scaling=0, rope_dim=2, rope_base=10000.0,
             rope_scale=1.0, vocabulary=0, model=77, arithmetic=1)


def record(kind, payload=b"", flags=0, sequence=0, position=0, count=0, binding=0, deflate=False):
    raw = len(payload)
    if deflate:
        payload, flags = zlib.compress(payload), flags | DEFLATED
    header = struct.pack("<4sBBHIIIIQQI16x", b"UNR1", kind, flags, 0, sequence, position, count, binding,
                         len(payload), raw, zlib.crc32(payload))
    return header + struct.pack("<I", zlib.crc32(header)) + payload + bytes(-len(payload) % 64)


def model(eog=(), name="toy", **facts):
    values = dict(FACTS, **facts)
    assert len(values) == len(FACTS), facts
    payload = b"".join(struct.pack("<f" if isinstance(x, float) else "<I", x) for x in values.values())
    payload += struct.pack(f"<I{len(eog)}I", len(eog), *eog)
    return record(MODEL, payload + struct.pack("<I", len(name)) + name.encode(), binding=values["model"])


def tokens(ids, position=0, **header):
    return record(TOKENS, struct.pack(f"<{len(ids)}I", *ids), count=len(ids), position=position, **header)


def cache(count, position=0, bytes_each=8, **header):
    header.setdefault("binding", 77)
    return record(CACHE, bytes(range(bytes_each)) * count, count=count, position=position, **header)


def logits(values, n=10, position=0, fill=0.0, kind=LOGITS, **header):
    """A list, or some of n entries by their ids."""
    if isinstance(values, dict):
        values = [values.get(i, fill) for i in range(n)]
    return record(kind, struct.pack(f"<{len(values)}f", *values), count=len(values), position=position,
                  **header)


def raw(values, **header):
    return logits(values, kind=RAW, **header)


def logprobs(token, raw, processed, raw_list=(), processed_list=(), position=0, **header):
    """raw None: there is none."""
    payload = struct.pack("<IIddII", token, raw is not None, raw or 0.0, processed, len(raw_list), len(processed_list))
    for entry in (*raw_list, *processed_list):
        payload += struct.pack("<Id", *entry)
    return record(LOGPROBS, payload, position=position, **header)


def fork(source, position, stream=0, sequence=0, **header):
    return record(FORK, struct.pack("<II", source, stream), sequence=sequence, position=position, **header)


def end(reason, position=0, token=NONE, trim=0, text=b"", **header):
    payload = struct.pack("<III", REASONS.index(reason), token, trim) + text
    return record(END, payload, position=position, **header)


def logprobs_words(payload):
    token, flags, raw, processed, n_raw, n_processed = struct.unpack_from("<IIddII", payload)
    entries = [f"{i}:{x:.6f}" for i, x in struct.iter_unpack("<Id", payload[32:])]
    assert len(entries) == n_raw + n_processed
    return [f"id={token}", f"raw={raw:.6f}" if flags else "raw=none", ",".join(entries[:n_raw]) or "-",
            f"processed={processed:.6f}", ",".join(entries[n_raw:]) or "-"]


def show(data, numbers=False):
    at = 0
    while at < len(data):
        magic, kind, flags, _, sequence, position, count, _, length, _, crc, check = struct.unpack_from(
            "<4sBBHIIIIQQI16xI", data, at)
        assert magic == b"UNR1" and check == zlib.crc32(data[at:at + 60]), f"bad header at {at}"
        payload = data[at + 64:at + 64 + length]
        assert crc == zlib.crc32(payload), f"bad payload at {at}"
        at += 64 + length + -length % 64
        if flags & DEFLATED:
            payload = zlib.decompress(payload)
        if numbers:
            if kind == LOGITS:
                print(*(f"{x:.6g}" for x in struct.unpack(f"<{count}f", payload)))
            continue
        words = [NAMES.get(kind, f"ancillary {kind}")]
        words += [word for bit, word in ((HELD, "HELD"), (OPEN, "OPEN"), (GENERATED, "GENERATED")) if flags & bit]
        if kind != MODEL:
            words += [f"sequence={sequence}", f"position={'append' if position == APPEND else position}"]
        if kind == TOKENS:
            words += ["ids=" + ",".join(map(str, struct.unpack(f"<{count}I", payload)))]
        elif kind in (CACHE, LOGITS, RAW):
            words += [f"count={count}"]
        elif kind == LOGPROBS:
            words += logprobs_words(payload)
        elif kind == END:
            reason, token, trim = struct.unpack_from("<III", payload)
            words += [REASONS[reason]] + ([] if token == NONE else [f"token={token}"])
            words += ([f"trim={trim}"] if trim else []) + ([payload[12:].decode()] if payload[12:] else [])
        print(*words)


if __name__ == "__main__":
    if sys.argv[1] in ("--show", "--logits"):
        with open(sys.argv[2], "rb") as file:
            show(file.read(), sys.argv[1] == "--logits")
    else:
        sys.stdout.buffer.write(b"".join(eval(word) for word in sys.argv[1:]))
