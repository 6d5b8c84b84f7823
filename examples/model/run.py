#!/usr/bin/env python3
"""Runs a small GGUF model in numpy: no speed, but every step can be read.

    run.py MODEL.gguf TEXT

Written apart from the training: it knows the model from its file alone.
Everything is computed in 32-bit floats from the dequantised weights.
"""

import math
import struct
import sys

import numpy as np

from tokenizer import Tokenizer


class Reader:
    """Takes little-endian values one after another from the file's bytes."""

    SIMPLE = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
              7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        x = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return x

    def string(self):
        length = self.take("<Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at]).decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            item_kind, count = self.take("<I"), self.take("<Q")
            return [self.value(item_kind) for _ in range(count)]
        return self.take(self.SIMPLE[kind])


def read_gguf(path):
    """The keys, and the tensors as 32-bit floats, of a GGUF file."""
    with open(path, "rb") as file:
        data = file.read()
    reader = Reader(data)
    if reader.take("<4s") != b"GGUF" or reader.take("<I") != 3:
        raise ValueError(f"{path}: not a GGUF file of version 3")
    n_tensors, n_keys = reader.take("<Q"), reader.take("<Q")
    keys = {}
    for _ in range(n_keys):
        name = reader.string()
        keys[name] = reader.value(reader.take("<I"))
    table = []
    for _ in range(n_tensors):
        name = reader.string()
        shape = [reader.take("<Q") for _ in range(reader.take("<I"))][::-1]
        table.append((name, shape, reader.take("<I"), reader.take("<Q")))
    alignment = keys.get("general.alignment", 32)
    start = reader.at + -reader.at % alignment
    tensors = {}
    for name, shape, kind, offset in table:
        count = math.prod(shape)
        if kind == 0:                                                   # F32
            flat = np.frombuffer(data, "<f4", count, start + offset)
        elif kind == 8:                                                # Q8_0
            block = np.dtype([("d", "<f2"), ("q", "i1", 32)])
            blocks = np.frombuffer(data, block, count // 32, start + offset)
            flat = blocks["d"][:, None].astype(np.float32) * blocks["q"]
        else:
            raise ValueError(f"{path}: {name}: element type {kind}")
        tensors[name] = flat.reshape(shape)
    return keys, tensors


class Model:
    """A Llama model from a GGUF file."""

    def __init__(self, path):
        keys, self.tensors = read_gguf(path)
        self.n_layers = keys["llama.block_count"]
        self.n_heads = keys["llama.attention.head_count"]
        self.n_kv_heads = keys["llama.attention.head_count_kv"]
        self.head_dim = keys["llama.rope.dimension_count"]
        self.context = keys["llama.context_length"]
        self.eps = keys["llama.attention.layer_norm_rms_epsilon"]
        self.rope_base = keys["llama.rope.freq_base"]
        self.eos = keys["tokenizer.ggml.eos_token_id"]
        self.tokenizer = Tokenizer(
            keys["tokenizer.ggml.tokens"],
            [m.split(" ") for m in keys["tokenizer.ggml.merges"]])

    def norm(self, x, name):
        return (x / np.sqrt(np.mean(x * x) + np.float32(self.eps))
                * self.tensors[name])

    def rope(self, x, position):
        """Turns the pairs (2i, 2i+1) of every head in x (heads, head_dim)."""
        i = np.arange(0, self.head_dim, 2)
        angle = position * self.rope_base ** (-i / self.head_dim)
        cos, sin = (f(angle).astype(np.float32) for f in (np.cos, np.sin))
        out = np.empty_like(x)
        out[:, 0::2] = x[:, 0::2] * cos - x[:, 1::2] * sin
        out[:, 1::2] = x[:, 0::2] * sin + x[:, 1::2] * cos
        return out

    def new_cache(self):
        """Keys and values: (layer, key or value, kv head, position, dim)."""
        return np.zeros((self.n_layers, 2, self.n_kv_heads, self.context,
                         self.head_dim), dtype=np.float32)

    def step(self, token, position, cache):
        """The logits over the token after `position`, which holds `token`.

        Adds the keys and values of this position to the cache.
        """
        w = self.tensors
        x = w["token_embd.weight"][token]
        for i in range(self.n_layers):
            layer = f"blk.{i}."
            h = self.norm(x, layer + "attn_norm.weight")
            q = (w[layer + "attn_q.weight"] @ h).reshape(self.n_heads, -1)
            k = (w[layer + "attn_k.weight"] @ h).reshape(self.n_kv_heads, -1)
            v = (w[layer + "attn_v.weight"] @ h).reshape(self.n_kv_heads, -1)
            q = self.rope(q, position)
            cache[i, 0, :, position] = self.rope(k, position)
            cache[i, 1, :, position] = v
            keys, values = cache[i, :, :, :position + 1]
            # Query heads in groups; each group reads one key/value head.
            q = q.reshape(self.n_kv_heads, -1, self.head_dim)
            scores = q @ keys.transpose(0, 2, 1) / math.sqrt(self.head_dim)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            mixed = (scores @ values).reshape(-1)
            x = x + w[layer + "attn_output.weight"] @ mixed

            h = self.norm(x, layer + "ffn_norm.weight")
            gate = w[layer + "ffn_gate.weight"] @ h
            gate = gate / (1 + np.exp(-gate))                          # SiLU
            h = gate * (w[layer + "ffn_up.weight"] @ h)
            x = x + w[layer + "ffn_down.weight"] @ h
        x = self.norm(x, "output_norm.weight")
        return w.get("output.weight", w["token_embd.weight"]) @ x

    def generate(self, prompt, choose, limit):
        """The ids that follow the prompt's ids, EOS included.

        `choose` makes an id of logits; at most `limit` ids are chosen.
        """
        cache = self.new_cache()
        for position, token in enumerate(prompt):
            logits = self.step(token, position, cache)
        chosen = []
        while True:
            token = choose(logits)
            chosen.append(token)
            position = len(prompt) + len(chosen) - 1
            if (token == self.eos or len(chosen) == limit
                    or position == self.context):
                return chosen
            logits = self.step(token, position, cache)


def greedy(logits):
    return int(np.argmax(logits))


def sampler(r, temperature, top_p):
    """A choice by chance from the most probable tokens that sum to top_p."""
    def choose(logits):
        p = np.exp((logits - logits.max()) / temperature)
        p /= p.sum()
        order = np.argsort(-p, kind="stable")
        kept = order[:np.searchsorted(np.cumsum(p[order]), top_p) + 1]
        return int(r.choice(kept, p=p[kept] / p[kept].sum()))
    return choose


def main():
    model = Model(sys.argv[1])
    prompt = model.tokenizer.encode(sys.argv[2])
    ids = model.generate(prompt, greedy, 300)
    print("prompt:", prompt)
    print("answer:", ids)
    print(model.tokenizer.decode(prompt + ids).decode(errors="replace"))


if __name__ == "__main__":
    main()
