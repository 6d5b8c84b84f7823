# Logits of the field's models beside reference values: computed by another engine in 32-bit floats from the
# dequantised weights.  The bounds are those of the data's own README: mean KL divergence at most 1.25 times what a
# widely used engine's quantised path shows, 1.0 times for F16 and BF16; the same top token wherever the exact margin exceeds
# twice that engine's largest difference.
. "$TOP/tests/cli/lib.sh"
if [ ! -r "$UNROLL_TEST_DATA/expected/tokens" ]; then
    echo "skipped: no ../shared/data"
    finish
fi
export XDG_CACHE_HOME="$PWD/cache"
cat >compare.py <<'EOF'
import math, os, struct, subprocess, sys, zlib
data = os.environ['UNROLL_TEST_DATA']
ids = [int(word) for word in open(data + '/expected/tokens').read().split(',')]
# name, reference, cache, largest mean KL, largest difference (0: not asked), twice the engine's largest difference
KL = {'Q8_0': 6.44e-5, 'Q4_0': 5.75e-5, 'Q4_1': 6.13e-5, 'Q5_0': 6.55e-5, 'Q5_1': 6.23e-5, 'Q2_K': 1.49e-4, 'Q3_K_M': 1.35e-4,
      'Q4_K_M': 1.32e-4, 'Q5_K_M': 1.20e-4, 'Q6_K': 1.32e-4, 'IQ4_NL': 6.58e-5, 'IQ4_XS': 1.31e-4}
LARGEST = {'f16': .0011, 'BF16': .0129, 'Q8_0': .0477, 'Q4_0': .0426, 'Q4_1': .0561, 'Q5_0': .0445, 'Q5_1': .0476, 'Q2_K': .0677,
           'Q3_K_M': .0639, 'Q4_K_M': .0728, 'Q5_K_M': .0632, 'Q6_K': .0798, 'IQ4_NL': .0473, 'IQ4_XS': .0607, 'F32': .0011}
rows = [('stories/stories260K', 'stories260K', 'f16', 3e-6, 0, 0.1), ('stories/stories260K', 'stories260K', 'f32', 1e-9, 2e-4, 4e-4),
        ('micro/micro-llama-F32', 'micro-llama-f16', 'f16', 2.45e-8, 0, .0022), ('micro/micro-llama-F32', 'micro-llama-f16', 'f32', 1e-9, 2e-4, 4e-4),
        ('micro/micro-llama-f16', 'micro-llama-f16', 'f16', 2.45e-8, 0, .0022), ('micro/micro-llama-BF16', 'micro-llama-BF16', 'f16', 5.18e-6, 0, .0258)]
for family in ('qwen2', 'qwen3'):
    name = 'micro-%s-f16' % family
    rows += [('micro/' + name, name, 'f16', 1.5e-7, 0, .01), ('micro/' + name, name, 'f32', 1e-9, 2e-4, 4e-4)]
rows += [('micro/micro-llama-' + k, 'micro-llama-' + k, 'f16', 1.25 * v, 0, 2 * LARGEST[k]) for k, v in KL.items()]

def tokens():
    payload = struct.pack('<%dI' % len(ids), *ids)
    header = b'UNR1' + struct.pack('<BBHIIIIQQI', 2, 0, 0, 0, 0, len(ids), 0, len(payload), len(payload), zlib.crc32(payload)) + bytes(16)
    return header + struct.pack('<I', zlib.crc32(header)) + payload + bytes(-len(payload) % 64)

def logits(model, cache):
    run = subprocess.run(['prefill', '-m', model, '--logits', 'all', '--cache-type', cache], input=tokens(), stdout=subprocess.PIPE, check=True)
    at, found = 0, []
    while at < len(run.stdout):
        kind, length = run.stdout[at + 4], struct.unpack_from('<Q', run.stdout, at + 24)[0]
        if kind == 4:
            found.append(struct.unpack_from('<%df' % (length // 4), run.stdout, at + 64))
        at += 64 + (length + 63) // 64 * 64
    return found

def log_softmax(row):
    top = max(row)
    norm = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - norm for x in row]

for path, reference, cache, most, difference, margin in rows:
    expected = [[float(x) for x in line.split()[1:]] for line in open('%s/expected/%s.logits' % (data, reference))]
    found = logits('%s/%s.gguf' % (data, path), cache)
    kl = largest = 0
    flips = 0
    for e, f in zip(expected, found):
        a, b = log_softmax(e), log_softmax(f)
        kl += sum(math.exp(x) * (x - y) for x, y in zip(a, b)) / len(expected)
        largest = max([largest] + [abs(x - y) for x, y in zip(e, f)])
        best, second = sorted(e, reverse=True)[:2]
        flips += best - second > margin and e.index(best) != f.index(max(f))
    ok = len(found) == len(ids) and kl <= most and (not difference or largest <= difference) and not flips
    print('%s %s cache %s: mean KL %.3g (at most %.3g), largest difference %.2g, %d tops differ%s'
          % ('ok' if ok else 'not ok', path, cache, kl, most, largest, flips, '' if ok else ': out of bounds'))
EOF
python3 compare.py >lines 2>&1 || echo "not ok reference values: $(tail -n 1 lines)"
cat lines
grep -q '^not ok' lines && failed=1
finish
