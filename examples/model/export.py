#!/usr/bin/env python3
"""Writes the trained weights and the vocabulary as one GGUF file.

    export.py VOCABULARY.json WEIGHTS.npz MODEL.gguf

GGUF version 3, all little-endian: a header, key-value pairs, a table of the
tensors, then the tensors' data, each at a multiple of 32 bytes.
"""

import argparse
import struct

import numpy as np

from tokenizer import Tokenizer
from shape import CONFIG

ALIGNMENT = 32
# The format's numbers for types of values, and types of tensor elements.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, Q8_0 = 0, 8
NORMAL, CONTROL = 1, 3


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, x):
    if kind == STRING:
        return string(x)
    if kind == ARRAY:
        item_kind, items = x
        return (struct.pack("<IQ", item_kind, len(items))
                + b"".join(value(item_kind, item) for item in items))
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f",
                        BOOL: "<?"}[kind], x)


def q8_0(matrix):
    """Rows in blocks of 32 numbers: a 16-bit scale and 32 bytes each."""
    blocks = matrix.astype(np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    data = np.zeros(len(blocks), dtype=[("d", "<f2"), ("q", "i1", 32)])
    data["d"] = scale[:, 0]
    data["q"] = np.rint(blocks * inverse)
    return data.tobytes()


def metadata(tokenizer):
    c, n_tokens = CONFIG, len(tokenizer.tokens)
    types = [NORMAL] * n_tokens
    types[tokenizer.eos] = CONTROL
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "unroll small"),
        ("general.description", STRING,
         "Countries and capitals, short stories, JSON records; made for "
         "trying and testing unroll."),
        ("general.license", STRING, "mit"),
        ("general.languages", ARRAY, (STRING, ["en"])),
        ("general.file_type", UINT32, 7),               # mostly Q8_0
        ("general.quantization_version", UINT32, 2),
        ("general.alignment", UINT32, ALIGNMENT),
        ("llama.vocab_size", UINT32, n_tokens),
        ("llama.context_length", UINT32, c["context"]),
        ("llama.embedding_length", UINT32, c["n_embd"]),
        ("llama.block_count", UINT32, c["n_layers"]),
        ("llama.feed_forward_length", UINT32, c["n_ff"]),
        ("llama.attention.head_count", UINT32, c["n_heads"]),
        ("llama.attention.head_count_kv", UINT32, c["n_kv_heads"]),
        ("llama.attention.key_length", UINT32, c["head_dim"]),
        ("llama.attention.value_length", UINT32, c["head_dim"]),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, c["norm_eps"]),
        ("llama.rope.dimension_count", UINT32, c["head_dim"]),
        ("llama.rope.freq_base", FLOAT32, c["rope_base"]),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokenizer.tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, types)),
        ("tokenizer.ggml.merges", ARRAY,
         (STRING, [f"{a} {b}" for a, b in tokenizer.merges])),
        ("tokenizer.ggml.eos_token_id", UINT32, tokenizer.eos),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    ]


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def gguf(tokenizer, weights):
    """The bytes of the whole file."""
    keys = b"".join(string(name) + struct.pack("<I", kind) + value(kind, x)
                    for name, kind, x in metadata(tokenizer))
    table, data = b"", b""
    for name, tensor in weights.items():
        kind = Q8_0 if tensor.ndim == 2 else F32
        # The format counts dimensions from the one that is contiguous.
        table += (string(name) + struct.pack("<I", tensor.ndim)
                  + struct.pack(f"<{tensor.ndim}Q", *reversed(tensor.shape))
                  + struct.pack("<IQ", kind, len(data)))
        stored = (q8_0(tensor) if kind == Q8_0
                  else tensor.astype("<f4").tobytes())
        data += stored + padding(len(stored))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(weights),
                       len(metadata(tokenizer))) + keys + table
    return head + padding(len(head)) + data


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vocabulary")
    parser.add_argument("weights")
    parser.add_argument("model")
    options = parser.parse_args()
    tokenizer = Tokenizer.load(options.vocabulary)
    data = gguf(tokenizer, dict(np.load(options.weights)))
    with open(options.model, "wb") as file:
        file.write(data)
    print(f"{options.model}: {len(data)} bytes")


if __name__ == "__main__":
    main()
