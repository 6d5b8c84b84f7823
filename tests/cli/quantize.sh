# quantize, and the kept layout of the weights (--repack).
. "$TOP/tests/cli/lib.sh"
MAKE=$BIN/../tests/make-model
export XDG_CACHE_HOME="$PWD/cache"

check_help quantize
"$MAKE" --dim 256 --vocabulary 320 full.gguf
begin "quantize: every type gives a model that runs"
for type in F16 BF16 Q8_0 Q4_0 Q4_K Q6_K Q4_K_M; do
    expect_status 0 quantize --type $type -o $type.gguf full.gguf
    expect_no_error
    expect_status 0 sh -c "tokenize -m $type.gguf 'the other' | prefill -m $type.gguf | sample"
    peek $type.gguf >listing
    grep -q 'blk.0.attn_q.weight.* '"${type%_M} " listing || fail "$type: $(grep attn_q listing | head -1)"
done
[ "$(stat -c %s Q4_0.gguf)" -lt "$(stat -c %s Q8_0.gguf)" ] || fail "Q4_0 is not smaller than Q8_0"
begin "quantize: the logits stay near, the nearer the more bits"
python3 - "$BIN" <<'EOF' || fail "see above: errors out of order"
import struct, subprocess, sys
def logits(name):
    t = subprocess.run([sys.argv[1] + '/tokenize', '-m', 'full.gguf', 'the other thing on and on'], stdout=subprocess.PIPE).stdout
    b = subprocess.run([sys.argv[1] + '/prefill', '-m', name], input=t, stdout=subprocess.PIPE).stdout
    return struct.unpack('<320f', b[-1280:])
full = logits('full.gguf')
error = {k: sum((a - b) ** 2 for a, b in zip(full, logits(k + '.gguf'))) for k in ('F16', 'Q8_0', 'Q6_K', 'Q4_K', 'Q4_0')}
print(error)
sys.exit(not (error['F16'] < error['Q8_0'] < error['Q6_K'] < error['Q4_K'] and error['Q4_K'] < 1.5 * error['Q4_0']))
EOF
begin "quantize: the mix of Q4_K_M"
"$MAKE" --dim 256 big.gguf
quantize -v --type Q4_K_M -o mixed.gguf big.gguf 2>log
grep -q 'output.weight.* to Q6_K' log || fail "output: $(brief log)"
grep -q 'norm.weight.* F32 to F32' log || fail "norms: $(brief log)"
begin "quantize: experts are matrices, routers and learned positions stay"
"$MAKE" --dim 256 --family qwen2moe experts-full.gguf
expect_status 0 quantize -v --type Q4_K -o experts.gguf experts-full.gguf
grep -q 'blk.0.ffn_up_exps.weight: 256 x 1536, F32 to Q4_K' err || fail "experts: $(grep exps err | head -n 1)"
grep -q 'ffn_gate_inp.weight: .* F32 to F32' err || fail "router: $(grep gate_inp err | head -n 1)"
expect_status 0 sh -c "tokenize -m experts.gguf 'the other' | prefill -m experts.gguf | sample"
"$MAKE" --dim 256 --family gpt2 positions-full.gguf
expect_status 0 quantize -v --type Q8_0 -o positions.gguf positions-full.gguf
grep -q 'position_embd.weight: .* F32 to F32' err || fail "positions: $(brief err)"
expect_status 0 sh -c "tokenize -m positions.gguf 'the other' | prefill -m positions.gguf | sample"
begin "quantize: threads do not show in the bytes, and standard output works"
quantize -t 1 --type Q4_K full.gguf >one
cmp -s one Q4_K.gguf || fail "differs"
begin "quantize: refusals"
expect_status 1 quantize --type Q4_0 -o x Q8_0.gguf
expect_error 'Q8_0.gguf: tensor .*expected F32, F16 or BF16, found Q8_0'
[ ! -e x ] || fail "left a file"
expect_status 2 quantize full.gguf
expect_error 'type is needed'
expect_status 2 quantize --type Q4_0
expect_status 2 quantize --type Q9 full.gguf
expect_status 3 quantize --type Q4_0 missing.gguf
expect_status 3 sh -c 'quantize --type Q8_0 full.gguf >/dev/full'
head -c 3000 full.gguf >half.gguf
expect_status 1 quantize --type Q8_0 -o x half.gguf
# ---- the kept layout ---------------------------------------------------------------------------------
for type in Q8_0 Q4_0 Q4_K_M; do
    begin "--repack: both layouts of $type give the same state"
    tokenize -m $type.gguf 'the other thing on and on' >tokens
    prefill -m $type.gguf --repack never tokens >plain
    expect_status 0 prefill -v -m $type.gguf --repack only tokens
    cp out kept
    grep -q 'interleaved layout' err || fail "$(brief err)"
    expect_same plain kept
    decode-step -m $type.gguf --repack only tokens >kept
    expect_same plain kept
    UNROLL_CPU=generic prefill -m $type.gguf --repack only tokens >kept
    expect_same plain kept
done
begin "--repack: the file is used by name of the model, is made anew when the model changes, and is small-model shy"
[ "$(ls cache/unroll | wc -l)" -eq 3 ] || fail "$(ls cache/unroll)"
rm -r cache
prefill -m Q8_0.gguf tokens >plain
[ ! -e cache/unroll ] || [ -z "$(ls cache/unroll)" ] || fail "made for a small model: $(ls cache/unroll)"
prefill -m Q8_0.gguf --repack only tokens >kept
before=$(stat -c %i cache/unroll/*)
prefill -m Q8_0.gguf --repack only tokens >kept
[ "$(stat -c %i cache/unroll/*)" = "$before" ] || fail "made twice"
touch -d '2001-01-01' Q8_0.gguf
prefill -m Q8_0.gguf --repack only tokens >kept
[ "$(stat -c %i cache/unroll/*)" != "$before" ] || fail "not made anew"
expect_same plain kept
begin "--repack: a damaged file is not used, two processes at once are safe"
truncate -s 5000 cache/unroll/*
prefill -m Q8_0.gguf --repack only tokens >kept
expect_same plain kept
rm -r cache
for i in 1 2 3 4; do prefill -m Q8_0.gguf --repack only tokens >kept$i & done
wait
for i in 1 2 3 4; do expect_same plain kept$i; done
[ "$(ls cache/unroll | wc -l)" -eq 1 ] || fail "left $(ls cache/unroll)"
begin "--repack: without a place for it, auto goes on and only fails"
chmod -R u+w cache; rm -r cache
echo in the way >cache
expect_status 0 prefill -m Q8_0.gguf --repack auto tokens
expect_same plain out
expect_status 3 prefill -m Q8_0.gguf --repack only tokens
expect_status 2 prefill --repack sometimes tokens
finish
