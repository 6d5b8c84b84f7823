#!/usr/bin/env python3
"""Writes small GGUF files that hold a vocabulary and no tensors, apart from the C library.

    vocabulary.py FILE 'bpe(special=["<s>", "</s>"], bos=0, eos=1, chat_template="...")'
"""

import struct
import sys

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def raw(text):
    return text if isinstance(text, bytes) else text.encode()


def string(text):
    return struct.pack("<Q", len(raw(text))) + raw(text)


def value(item):
    """Type and bytes: bool, int, float, text, or a list of one of them."""
    if isinstance(item, bool):
        return BOOL, struct.pack("<B", item)
    if isinstance(item, int):
        return (I32, struct.pack("<i", item)) if item < 0 else (U32, struct.pack("<I", item))
    if isinstance(item, float):
        return F32, struct.pack("<f", item)
    if isinstance(item, (str, bytes)):
        return STRING, string(item)
    kind = I32 if item and isinstance(item[0], int) else value(item[0])[0] if item else STRING
    body = b"".join(struct.pack("<i", x) if kind == I32 else value(x)[1] for x in item)
    return ARRAY, struct.pack("<IQ", kind, len(item)) + body


def gguf(**pairs):
    """A key's dots are written as two underscores."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs))
    for key, item in pairs.items():
        kind, body = value(item)
        out += string(key.replace("__", ".")) + struct.pack("<I", kind) + body
    return out


def byte_level(byte):
    itself = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    moved = [b for b in range(256) if b not in itself]
    return chr(byte if byte in itself else 256 + moved.index(byte))


def pairs_of(model, texts, kinds, bos, eos, chat_template, more):
    pairs = {"general__architecture": "llama", "tokenizer__ggml__model": model,
             "tokenizer__ggml__tokens": texts, "tokenizer__ggml__token_type": kinds}
    if bos is not None:
        pairs["tokenizer__ggml__bos_token_id"] = bos
    if eos is not None:
        pairs["tokenizer__ggml__eos_token_id"] = eos
    if chat_template is not None:
        pairs["tokenizer__chat_template"] = chat_template
    pairs.update(more)
    return pairs


def bpe(special=(), user=(), normal=(), merges=(), pre="gpt-2", bos=None, eos=None, chat_template=None, **more):
    """Ids: the special tokens, the user-defined ones, the bytes, the normal ones (as UTF-8 text)."""
    texts = [*special, *user] + [byte_level(b) for b in range(256)]
    texts += ["".join(byte_level(b) for b in text.encode()) for text in normal]
    kinds = [CONTROL] * len(special) + [USER] * len(user) + [NORMAL] * (256 + len(normal))
    pairs = pairs_of("gpt2", texts, kinds, bos, eos, chat_template, more)
    pairs.update(tokenizer__ggml__pre=pre, tokenizer__ggml__merges=list(merges))
    return gguf(**pairs)


def spm(special=("<unk>", "<s>", "</s>"), user=(), normal=(), scores=None, bos=1, eos=2, chat_template=None, **more):
    """Ids: the special tokens, the user-defined ones, the bytes, the normal ones."""
    texts = [*special, *user] + [f"<0x{b:02X}>" for b in range(256)] + list(normal)
    kinds = [UNKNOWN if text == "<unk>" else CONTROL for text in special]
    kinds += [USER] * len(user) + [BYTE] * 256 + [NORMAL] * len(normal)
    pairs = pairs_of("llama", texts, kinds, bos, eos, chat_template, more)
    pairs.setdefault("tokenizer__ggml__scores", scores or [-float(i) for i in range(len(texts))])
    return gguf(**pairs)


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(eval(sys.argv[2]))
