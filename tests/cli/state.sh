# prefill and decode-step: states, restored and refused.
. "$TOP/tests/cli/lib.sh"
MAKE=$BIN/../tests/make-model

begin "prefill and decode-step make the same state, whatever the chunks and threads"
tokenize 'The capital of France is Paris. The capital of Italy is Rome. There was a small cat. It lived in a house. It was red and blue. One two three four five six seven eight nine ten. Monday Tuesday Wednesday' >tokens
prefill tokens >one
for b in 1 7 64; do
    prefill -b $b -t 2 tokens >two
    expect_same one two
done
decode-step tokens >two
expect_same one two
prefill -o two tokens
expect_same one two
for cpu in generic avx2 avx512 amx; do
    UNROLL_CPU=$cpu prefill tokens >two 2>err || { grep -q 'this CPU has' err && continue; }
    expect_same one two
done
begin "a state goes through unchanged"
prefill one >two
expect_same one two
prefill <one >two
expect_same one two
cat one | prefill >two
expect_same one two
cat one | decode-step - >two
expect_same one two
prefill --compress one >small
[ "$(stat -c %s small)" -lt "$(stat -c %s one)" ] || fail "not smaller"
prefill small >two
expect_same one two

begin "--logits all: the logits of every position are those of a prefill that ends there"
prefill --logits all tokens >all
python3 - all <<'EOF' || fail "not one LOGITS for each position, in order"
import sys
b, o, p = open(sys.argv[1], 'rb').read(), 0, []
while o < len(b):
    if b[o + 4] == 4:
        p.append(int.from_bytes(b[o + 12:o + 16], 'little'))
    o += 64 + (int.from_bytes(b[o + 24:o + 32], 'little') + 63) // 64 * 64
sys.exit(p != list(range(len(p))) or len(p) < 40)
EOF
prefill -b 5 --logits all tokens >two
expect_same all two
prefill all >two
expect_same one two

begin "a damaged state is refused: a bit flipped at each of 300 places, a cut at 100"
tokenize 'The capital of France is' | prefill >state
tokenize --append ' Paris' >more
size=$(stat -c %s state)
python3 - state "$BIN/decode-step" more <<'EOF' >log 2>&1 || fail "$(brief log)"
import random, subprocess, sys
state, program, more = open(sys.argv[1], 'rb').read(), sys.argv[2], sys.argv[3]
random.seed(1)
def refused(bytes_):
    # logits that a further token makes useless are passed over, so the state alone is tried
    with open('written', 'wb') as file: # a pipe would be told by END (error)
        r = subprocess.run([program, '-t', '1'], input=bytes_, stdout=file, stderr=subprocess.PIPE)
    written = len(open('written', 'rb').read())
    ok = r.returncode == 1 and not written and r.stderr.count(b'\n') == 1
    if not ok:
        print('status', r.returncode, 'output', written, r.stderr[:200])
    return ok
places = random.sample(range(8 * len(state)), 240) + list(range(0, 8 * 64, 9))
for bit in places:
    b = bytearray(state)
    b[bit // 8] ^= 1 << bit % 8
    if not refused(bytes(b)):
        sys.exit('bit %d' % bit)
model = 64 + (int.from_bytes(state[24:32], 'little') + 63) // 64 * 64
for cut in sorted(random.sample(range(len(state)), 90)) + [0, 1, 63, 64, 65, len(state) - 1, len(state) - 64]:
    if cut != model and not refused(state[:cut]):
        sys.exit('cut at %d' % cut)
EOF

begin "a state of another model, quantisation or cache type is refused, both sides named"
"$MAKE" one.gguf
"$MAKE" --type F16 two.gguf
tokenize -m one.gguf abc | prefill -m one.gguf >other
expect_status 1 decode-step other
expect_error 'other: record 1 \(MODEL\): .* is .* \(random\), expected .*\(unroll'
expect_status 1 prefill -m two.gguf other
expect_error 'model fingerprint is [0-9a-f]{8} \(random\), expected [0-9a-f]{8} \(random\)'
expect_status 1 prefill -m one.gguf --cache-type f32 other
expect_error 'cache type is F16 \(random\), expected F32 \(random\); see --cache-type'
expect_status 1 sh -c 'tokenize abc | prefill -m one.gguf'
expect_error 'prefill: .*vocabulary [0-9a-f]{8}, .* has vocabulary [0-9a-f]{8}'

begin "several sequences in one stream are each what they are alone"
tokenize --sequence 1 'The capital of Italy is' >b
tokenize 'The capital of France is' >a
cat a b | prefill >both
prefill a >alone
expect_status 0 sample both
cp out chosen
detok --sequence 0 chosen >out
expect_bytes ' Paris'
detok --sequence 1 chosen >out
expect_bytes ' Rome'

for p in prefill decode-step; do
    check_input $p state
    begin "$p: wrong records"
    stream end 'end("eos")'
    expect_status 1 $p end
    stream logits 'logits([1, 2])'
    expect_status 1 $p logits
    begin "$p: tokens that begin in the middle"
    stream middle 'tokens([5], position=7)'
    expect_status 1 $p middle
    expect_error 'positions 0 to 6 are missing'
    begin "$p: a token that the model does not have"
    stream large 'tokens([5, 99999999])'
    expect_status 1 $p large
    expect_error 'token 99999999 at position 1'
    begin "$p: a missing and a damaged model"
    expect_status 3 $p -m no-such.gguf a
    expect_error 'no-such.gguf: cannot open'
    head -c 5000 "$TOP/examples/model/unroll-small.gguf" >half.gguf
    expect_status 1 $p -m half.gguf a
    expect_error 'half.gguf: '
    begin "$p: a larger context than the model's"
    expect_status 2 $p -c 1000000 a
    expect_error '1000000'
    begin "$p: -o leaves the old file when it fails"
    echo old >kept
    expect_status 1 $p -o kept middle
    [ "$(cat kept)" = old ] || fail "the old file is gone"
    [ "$(ls kept*)" = kept ] || fail "left $(ls kept*)"
    expect_status 0 $p -o kept a
    expect_same kept alone
    begin "$p: -o through links"
    ln -s sub/target link-$p
    mkdir -p sub
    expect_status 0 $p -o link-$p a
    [ -h link-$p ] && [ -f sub/target ] || fail "the link was replaced"
    ln -sf loop loop
    expect_status 3 $p -o loop a
    expect_status 2 $p -o '' a
    begin "$p: a full disk, a closed reader, a terminal"
    expect_status 3 sh -c "$p a >/dev/full"
    expect_error 'cannot write: No space left'
    $p a 2>err | head -c 0
    expect_no_error
    on_terminal "$BIN/$p a" >out
    grep -q 'is a terminal' out || fail "terminal: $(brief out)"
    on_terminal "$BIN/$p --force a" | grep -qa UNR1 || fail "--force"
done

begin "UNROLL_CPU: a wrong name"
expect_status 2 env UNROLL_CPU=pentium prefill a
expect_error 'pentium'
begin "values that are not finite: an error that names layer and position"
python3 - one.gguf bad.gguf <<'EOF'
import sys
b = bytearray(open(sys.argv[1], 'rb').read())
b[-64 * 4 * 300:-64 * 4 * 299] = b'\xff' * (64 * 4) # a row of the output matrix
open(sys.argv[2], 'wb').write(b)
EOF
tokenize -m bad.gguf abc >t
expect_status 1 prefill -m bad.gguf t
expect_error 'not finite'
finish
