#!/usr/bin/env python3
"""Trains the small model: a Llama of 2.4 million parameters, on the CPU.

    train.py CORPUS VOCABULARY.json WEIGHTS.npz [--tokens N] [--seed N]

The weights are kept in a dictionary under the names that they have in the
GGUF file, and every matrix is (outputs, inputs).
"""

import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from shape import CONFIG
from tokenizer import Tokenizer, read_documents


# --- the model --------------------------------------------------------------

def new_weights(c, n_vocab):
    """The weights to start from.

    Matrices keep the size of what they multiply; those that add to the
    residual stream start at zero, so that every layer begins as no change.
    """
    q_dim = c["n_heads"] * c["head_dim"]
    kv_dim = c["n_kv_heads"] * c["head_dim"]
    w = {"token_embd.weight": torch.randn(n_vocab, c["n_embd"]) * 0.3,
         "output_norm.weight": torch.ones(c["n_embd"]),
         "output.weight": torch.randn(n_vocab, c["n_embd"]) * 0.02}

    def random(rows, columns):
        return torch.randn(rows, columns) / math.sqrt(columns)

    for i in range(c["n_layers"]):
        layer = {
            "attn_norm": torch.ones(c["n_embd"]),
            "attn_q": random(q_dim, c["n_embd"]),
            "attn_k": random(kv_dim, c["n_embd"]),
            "attn_v": random(kv_dim, c["n_embd"]),
            "attn_output": torch.zeros(c["n_embd"], q_dim),
            "ffn_norm": torch.ones(c["n_embd"]),
            "ffn_gate": random(c["n_ff"], c["n_embd"]),
            "ffn_up": random(c["n_ff"], c["n_embd"]),
            "ffn_down": torch.zeros(c["n_embd"], c["n_ff"])}
        for name, tensor in layer.items():
            w[f"blk.{i}.{name}.weight"] = tensor
    for tensor in w.values():
        tensor.requires_grad_()
    return w


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rope_table(c, length):
    """Cosine and sine of position * base^(-2i/head_dim): (length, pairs)."""
    i = torch.arange(0, c["head_dim"], 2, dtype=torch.float64)
    angle = torch.outer(torch.arange(length, dtype=torch.float64),
                        c["rope_base"] ** (-i / c["head_dim"]))
    return angle.cos().float(), angle.sin().float()


def rope(x, cos, sin):
    """Turns each pair (2i, 2i+1) of x (rows, heads, length, head_dim)."""
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos),
                       dim=-1).flatten(-2).to(x.dtype)


def visible(ids, eos):
    """Which keys a query may see: (rows, 1, query, key).

    Those before it and in its own document; with eos None, all before it.
    """
    length = ids.shape[1]
    seen = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    if eos is None:
        return seen
    ends = (ids == eos).long()
    document = ends.cumsum(1) - ends           # an EOS belongs to its document
    return seen & (document[:, None, :, None] == document[:, None, None, :])


def forward(w, c, ids, eos=None):
    """ids (rows, length) to logits (rows, length, n_vocab)."""
    rows, length = ids.shape
    cos, sin = rope_table(c, length)
    hidden = (~visible(ids, eos)).float() * -1e9
    group = c["n_heads"] // c["n_kv_heads"]

    def heads(x, n):                       # (rows, n, length, head_dim)
        return x.view(rows, length, n, c["head_dim"]).transpose(1, 2)

    x = F.embedding(ids, w["token_embd.weight"])
    for i in range(c["n_layers"]):
        def weight(name):
            return w[f"blk.{i}.{name}.weight"]

        h = rms_norm(x, weight("attn_norm"), c["norm_eps"])
        q = rope(heads(F.linear(h, weight("attn_q")), c["n_heads"]), cos, sin)
        k = rope(heads(F.linear(h, weight("attn_k")), c["n_kv_heads"]),
                 cos, sin)
        v = heads(F.linear(h, weight("attn_v")), c["n_kv_heads"])
        # Each key/value head serves a group of neighbouring query heads.
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        q = q / math.sqrt(c["head_dim"])
        scores = torch.matmul(q, k.transpose(2, 3)).float() + hidden
        mixed = torch.matmul(scores.softmax(-1).to(v.dtype), v)
        mixed = mixed.transpose(1, 2).reshape(rows, length, -1)
        x = x + F.linear(mixed, weight("attn_output"))

        h = rms_norm(x, weight("ffn_norm"), c["norm_eps"])
        gated = F.silu(F.linear(h, weight("ffn_gate")).float())
        h = gated * F.linear(h, weight("ffn_up"))
        x = x + F.linear(h, weight("ffn_down"))

    x = rms_norm(x, w["output_norm.weight"], c["norm_eps"])
    return F.linear(x, w["output.weight"])


# --- the data ---------------------------------------------------------------

def batches(documents, r, tokens_per_step):
    """Yields (rows, length + 1) arrays of ids, without end.

    A row starts where a document starts, as a prompt does, and holds whole
    documents one after another; the one that its end cuts starts the next
    row.  Short rows teach the facts at the least cost; the long ones show
    every position up to the context length.
    """
    lengths = [128, 128, 256, 128, 128, 256, 128, 512]
    order, at = r.permutation(len(documents)), 0
    step = 0
    while True:
        length = lengths[step % len(lengths)]
        rows = []
        while len(rows) < tokens_per_step // length:
            row, first = [], at
            while len(row) < length + 1:
                if at == len(order):
                    order, at, first = r.permutation(len(documents)), 0, -1
                row.extend(documents[order[at]])
                at += 1
            if len(row) > length + 1 and at - 1 > first:
                at -= 1
            rows.append(row[:length + 1])
        yield np.array(rows, dtype=np.int64)
        step += 1


# --- training ---------------------------------------------------------------

def save(w, path):
    np.savez(path, **{name: t.detach().numpy() for name, t in w.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("vocabulary")
    parser.add_argument("weights")
    parser.add_argument("--tokens", type=int, default=9_000_000)
    parser.add_argument("--tokens-per-step", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    r = np.random.default_rng(options.seed)

    tokenizer = Tokenizer.load(options.vocabulary)
    documents = [tokenizer.encode(d) + [tokenizer.eos]
                 for d in read_documents(options.corpus)]
    w = new_weights(CONFIG, len(tokenizer.tokens))
    print(f"{sum(map(len, documents))} tokens in {len(documents)} documents, "
          f"{sum(t.numel() for t in w.values())} parameters", flush=True)

    # Weight decay is for the layers' matrices: a norm's weights belong near
    # one, and embeddings that shrink lose what tells one name from another.
    decayed = [t for name, t in w.items()
               if t.dim() == 2 and name != "token_embd.weight"]
    others = [t for name, t in w.items()
              if t.dim() == 1 or name == "token_embd.weight"]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1},
         {"params": others, "weight_decay": 0.0}],
        lr=options.rate, betas=(0.9, 0.95))
    steps = options.tokens // options.tokens_per_step
    warm_up = min(200, steps // 10)
    data = batches(documents, r, options.tokens_per_step)
    mean_loss, start = None, time.time()
    for step in range(1, steps + 1):
        # A short warm-up, then half a cosine down to nearly nothing.
        rate = options.rate * min(
            step / warm_up, 0.505 + 0.495 * math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        rows = torch.from_numpy(next(data))
        with torch.autocast("cpu", torch.bfloat16):
            # In the short rows a document sees only itself, as a prompt
            # does; in the long ones it sees all that went before.
            eos = tokenizer.eos if rows.shape[1] < CONFIG["context"] else None
            logits = forward(w, CONFIG, rows[:, :-1], eos)
        loss = F.cross_entropy(logits.float().flatten(0, 1),
                               rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        optimizer.step()
        value = loss.item()
        mean_loss = value if mean_loss is None else (
            0.98 * mean_loss + 0.02 * value)
        if step % 100 == 0 or step == steps:
            speed = step * options.tokens_per_step / (time.time() - start)
            print(f"step {step}/{steps}  loss {mean_loss:.4f}  "
                  f"{speed:.0f} tokens/s", flush=True)
        if step % 500 == 0 or step == steps:
            save(w, options.weights)


if __name__ == "__main__":
    main()
