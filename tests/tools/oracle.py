"""An independent forward pass in 64-bit floats, from the published architectures, to hold the programs to.

    oracle.py MODEL IDS [CONTEXT]     IDS: token ids, comma-separated; a line of logits for each position
    oracle.py --set KEY=VALUE MODEL   the same model with another value in its metadata, on standard output

Reads GGUF itself (weights in F32 and F16).  What each family is, from its paper or its authors' description:

    llama     2302.13971: pre-norm (RMSNorm), rotary positions, SwiGLU; windows as in Mistral 7B, 2310.06825;
              experts as in Mixtral, 2401.04088: softmax over the logits of the chosen
    qwen2     2407.10671: the same with biases of queries, keys and values; qwen2moe: an expert for all tokens, gated by
              a sigmoid, and weights that are the softmax over all experts
    qwen3     2505.09388: no biases, queries and keys normalised in each head; qwen3moe: experts as in Mixtral
    gpt2      Radford et al. 2019: LayerNorm, learned positions, biases everywhere, GELU (tanh form)
    gemma     2403.08295: embeddings times sqrt(dim), GeGLU; gemma2, 2408.00118: norms on both sides of each block,
              scores and logits soft-capped, every second layer with a window; gemma3, 2503.19786: queries and keys
              normalised, five layers with a window (and rotary base 10,000) to one without
    phi3      2404.14219: as llama, fused matrices, LongRoPE 2402.13753 (its factors of frequencies are in the file)
    olmo2     2501.00656: norms behind each block only, queries and keys normalised as a whole; olmo3: three layers with
              a window to one without, YaRN in the latter only
    granite   IBM's model cards: multipliers of embeddings, residuals, scores, and a divisor of logits; granitemoe: experts
YaRN is 2309.00071.  Norm weights of gemma include the 1 of its formula, as GGUF stores them."""
import math, struct, sys
import numpy as np

FIXED = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


class Gguf:
    def __init__(self, path):
        self.bytes, self.at, self.meta, self.where, self.tensors = open(path, 'rb').read(), 24, {}, {}, {}
        assert self.bytes[:4] == b'GGUF' and struct.unpack_from('<I', self.bytes, 4)[0] == 3
        n_tensors, n_values = struct.unpack_from('<QQ', self.bytes, 8)
        for _ in range(n_values):
            begin, key = self.at, self.text()
            self.meta[key] = self.value(self.number('I'))
            self.where[key] = begin, self.at
        infos = []
        self.end_of_values = self.at
        for _ in range(n_tensors):
            name, dims = self.text(), [self.number('Q') for _ in range(self.number('I'))]
            infos.append((name, dims, self.number('I'), self.number('Q')))
        self.end_of_infos = self.at
        self.data = (self.at + 31) // 32 * 32
        for name, dims, kind, offset in infos:
            kinds = {0: '<f4', 1: '<f2'}
            flat = np.frombuffer(self.bytes, kinds[kind], math.prod(dims), self.data + offset)
            self.tensors[name] = flat.astype(np.float64).reshape(dims[::-1])

    def number(self, code):
        value, = struct.unpack_from('<' + code, self.bytes, self.at)
        self.at += struct.calcsize('<' + code)
        return value

    def text(self):
        length = self.number('Q')
        self.at += length
        return self.bytes[self.at - length:self.at].decode('utf-8', 'surrogateescape')

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.number('I'), self.number('Q')
            return [self.value(element) for _ in range(count)]
        return self.number(FIXED[kind])

    def edited(self, key, text):
        """The file with a value added or replaced: an unsigned number, a real one, true or false, or a string."""
        head = struct.pack('<Q', len(key)) + key.encode()
        if text in ('true', 'false'):
            head += struct.pack('<I?', 7, text == 'true')
        elif text.isdigit():
            head += struct.pack('<II', 4, int(text))
        elif text.replace('.', '').replace('-', '').isdigit(): # a real number has a point
            head += struct.pack('<If', 6, float(text))
        else:
            head += struct.pack('<IQ', 8, len(text)) + text.encode()
        begin, end = self.where.get(key, (self.end_of_values, self.end_of_values))
        out = self.bytes[:16] + struct.pack('<Q', len(self.meta) + (key not in self.meta)) + self.bytes[24:begin]
        out += head + self.bytes[end:self.end_of_infos]
        return out + bytes(-len(out) % 32) + self.bytes[self.data:]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


class Model:
    def __init__(self, gguf, context):
        self.g, self.family = gguf, gguf.meta['general.architecture']
        self.t = gguf.tensors
        self.layers, self.dim = self.key('block_count'), self.key('embedding_length')
        self.heads = self.key('attention.head_count')
        self.kv_heads = self.key('attention.head_count_kv', self.heads)
        self.head = self.key('attention.key_length', self.dim // self.heads)
        self.context = context or self.key('context_length')
        self.epsilon = self.key('attention.layer_norm_epsilon', None) or self.key('attention.layer_norm_rms_epsilon')
        self.act = gelu if self.family.startswith(('gemma', 'gpt2')) else silu

    def key(self, name, *default):
        return self.g.meta.get(self.family + '.' + name, *default) if default else self.g.meta[self.family + '.' + name]

    def norm(self, x, name):
        weight = self.t[name + '.weight']
        if self.family == 'gpt2':
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * weight
        return x + self.t[name + '.bias'] if self.family == 'gpt2' else x

    def linear(self, x, name):
        y = x @ self.t[name + '.weight'].T
        return y + self.t[name + '.bias'] if name + '.bias' in self.t else y

    def local(self, layer):
        """Whether a layer has a window."""
        window = self.key('attention.sliding_window', 0)
        if not window:
            return False
        pattern = self.key('attention.sliding_window_pattern', None)
        if isinstance(pattern, list):
            return pattern[layer]
        period = pattern or {'gemma2': 2, 'gemma3': 6}.get(self.family)
        return period is None or (layer + 1) % period != 0

    def frequencies(self, local):
        """Radians a position of each pair, and what cosine and sine are multiplied with."""
        n = self.key('rope.dimension_count')
        base = self.key('rope.freq_base')
        if local:
            base = self.key('rope.freq_base_swa', 10000.0 if self.family == 'gemma3' else base)
        f = base ** (-np.arange(0, n, 2) / n)
        kind, s = self.key('rope.scaling.type', 'none'), self.key('rope.scaling.factor', 1)
        original = self.key('rope.scaling.original_context_length', self.context)
        if 'rope_freqs.weight' in self.t:
            f = f / self.t['rope_freqs.weight']
        if 'rope_factors_long.weight' in self.t:
            which = 'long' if self.context > original else 'short'
            return f / self.t['rope_factors_%s.weight' % which], self.key('rope.scaling.attn_factor', 1)
        if local and self.family in ('gemma3', 'olmo2') or kind == 'none':
            return f, 1
        if kind == 'linear':
            return f / s, 1
        # YaRN: pairs that turn more than 32 times within the original context stay, those below once are interpolated
        fast, slow = self.key('rope.scaling.yarn_beta_fast', 32), self.key('rope.scaling.yarn_beta_slow', 1)
        dim_of = lambda turns: n * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(dim_of(fast)), 0), min(math.ceil(dim_of(slow)), n - 1)
        ramp = np.clip((np.arange(n // 2) - low) / max(high - low, 0.001), 0, 1)
        return f / s * ramp + f * (1 - ramp), 0.1 * math.log(s) + 1

    def rotate(self, x, local):
        """x (positions, heads, head dim)"""
        if self.family == 'gpt2' or self.key('rope.scaling.finetuned', True) is False:
            return x
        n = self.key('rope.dimension_count')
        f, factor = self.frequencies(local)
        angle = np.arange(len(x))[:, None, None] * f
        c, s = np.cos(angle) * factor, np.sin(angle) * factor
        x = x.copy()
        if self.family in ('llama', 'granite', 'granitemoe'): # neighbours, as their files are permuted
            a, b = x[..., 0:n:2].copy(), x[..., 1:n:2].copy()
            x[..., 0:n:2], x[..., 1:n:2] = a * c - b * s, a * s + b * c
        else:
            a, b = x[..., :n // 2].copy(), x[..., n // 2:n].copy()
            x[..., :n // 2], x[..., n // 2:n] = a * c - b * s, a * s + b * c
        return x

    def qkv(self, x, at):
        if at + 'attn_qkv.weight' in self.t:
            sizes = np.cumsum([self.heads * self.head, self.kv_heads * self.head])
            return np.split(self.linear(x, at + 'attn_qkv'), sizes, axis=-1)
        return [self.linear(x, at + 'attn_' + which) for which in 'qkv']

    def attention(self, x, layer):
        at, local, n = 'blk.%d.' % layer, self.local(layer), len(x)
        q, k, v = self.qkv(x, at)
        if self.family == 'olmo2':
            q, k = self.norm(q, at + 'attn_q_norm'), self.norm(k, at + 'attn_k_norm')
        q, k, v = (y.reshape(n, -1, self.head) for y in (q, k, v))
        if self.family in ('qwen3', 'qwen3moe', 'gemma3'):
            q, k = self.norm(q, at + 'attn_q_norm'), self.norm(k, at + 'attn_k_norm')
        q, k = self.rotate(q, local), self.rotate(k, local)
        k, v = (np.repeat(y, self.heads // self.kv_heads, axis=1) for y in (k, v))
        # the largest gemma2 and gemma3 (27B) scale by dim / heads instead of the size of a head
        wide = {'gemma2': 46, 'gemma3': 62}.get(self.family) == self.layers
        scale = 1 / math.sqrt(self.dim // self.heads if wide else self.head)
        scores = np.einsum('ihd,jhd->hij', q, k) * self.key('attention.scale', scale)
        cap = self.key('attn_logit_softcapping', 0)
        if cap:
            scores = cap * np.tanh(scores / cap)
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = j <= i
        if local:
            seen &= i - j < self.key('attention.sliding_window')
        out = np.einsum('hij,jhd->ihd', softmax(np.where(seen, scores, -np.inf)), v)
        return self.linear(out.reshape(n, -1), at + 'attn_output')

    def gated(self, x, gate, up, down):
        return (self.act(x @ gate.T) * (x @ up.T)) @ down.T

    def expert(self, at, which, e):
        merged = at + 'ffn_%s_exps.weight' % which
        return self.t[merged][e] if merged in self.t else self.t[at + 'ffn_%s.%d.weight' % (which, e)]

    def experts(self, x, at):
        logits, used = self.linear(x, at + 'ffn_gate_inp'), self.key('expert_used_count')
        y = np.zeros_like(x)
        for i, row in enumerate(logits):
            chosen = sorted(range(len(row)), key=lambda e: -row[e])[:used]
            normalised = self.key('expert_weights_norm', self.family != 'qwen2moe')
            weights = softmax(row[chosen]) if normalised else softmax(row)[chosen]
            weights = weights * self.key('expert_weights_scale', 1)
            for e, weight in zip(chosen, weights):
                y[i] += weight * self.gated(x[i], *(self.expert(at, w, e) for w in ('gate', 'up', 'down')))
        if at + 'ffn_up_shexp.weight' in self.t:
            shared = self.gated(x, *(self.t[at + 'ffn_%s_shexp.weight' % w] for w in ('gate', 'up', 'down')))
            if self.family == 'qwen2moe':
                shared *= sigmoid(x @ self.t[at + 'ffn_gate_inp_shexp.weight'])[:, None]
            y += shared
        return y

    def feed_forward(self, x, layer):
        at = 'blk.%d.' % layer
        if at + 'ffn_gate_inp.weight' in self.t:
            return self.experts(x, at)
        up = self.linear(x, at + 'ffn_up')
        if self.family == 'phi3':
            gate, up = np.split(up, 2, axis=-1)
            return self.linear(up * self.act(gate), at + 'ffn_down')
        if self.family == 'gpt2':
            return self.linear(self.act(up), at + 'ffn_down')
        return self.linear(self.act(self.linear(x, at + 'ffn_gate')) * up, at + 'ffn_down')

    def logits(self, ids):
        x = self.t['token_embd.weight'][ids]
        if self.family.startswith('gemma'):
            x = x * math.sqrt(self.dim)
        x = x * self.key('embedding_scale', 1)
        if self.family == 'gpt2':
            x = x + self.t['position_embd.weight'][:len(ids)]
        residual = self.key('residual_scale', 1)
        for layer in range(self.layers):
            for block, before, after in ((self.attention, 'attn_norm', 'post_attention_norm'),
                                         (self.feed_forward, 'ffn_norm', 'post_ffw_norm')):
                at = 'blk.%d.' % layer
                y = block(x if self.family == 'olmo2' else self.norm(x, at + before), layer)
                if self.family in ('gemma2', 'gemma3', 'olmo2'):
                    y = self.norm(y, at + after)
                x = x + residual * y
        head = 'output.weight' if 'output.weight' in self.t else 'token_embd.weight'
        y = self.norm(x, 'output_norm') @ self.t[head].T / self.key('logit_scale', 1)
        cap = self.key('final_logit_softcapping', 0)
        return cap * np.tanh(y / cap) if cap else y


if sys.argv[1] == '--set':
    sys.stdout.buffer.write(Gguf(sys.argv[3]).edited(*sys.argv[2].split('=', 1)))
else:
    context = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    for row in Model(Gguf(sys.argv[1]), context).logits([int(i) for i in sys.argv[2].split(',')]):
        print(' '.join('%.9g' % value for value in row))
