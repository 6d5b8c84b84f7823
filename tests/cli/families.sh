# Every family, with random weights, beside an independent forward pass in 64-bit floats (tests/tools/oracle.py); what a
# family does not implement is refused by name.
. "$TOP/tests/cli/lib.sh"
MAKE=$BIN/../tests/make-model
python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$p" -c 'import numpy' 2>/dev/null || python=$p
done
if [ -z "$python" ]; then
    skip "families beside the oracle" "there is no numpy"
    finish
fi
ids=$("$python" -c 'print(",".join(str((i * 7919 + i * i * 31 + 5) % 320) for i in range(200)))')
stream ids "tokens([$ids])"

cat >compare.py <<'PYTHON'
import struct, sys
expected = [[float(x) for x in line.split()] for line in open(sys.argv[1])]
data, at, found = open(sys.argv[2], 'rb').read(), 0, []
while at < len(data):
    length, = struct.unpack_from('<Q', data, at + 24)
    if data[at + 4] == 4:
        found.append(struct.unpack_from('<%df' % (length // 4), data, at + 64))
    at += 64 + (length + 63) // 64 * 64
assert len(found) == len(expected) and len(found[0]) == len(expected[0]), (len(found), len(expected))
worst = max(abs(a - b) for x, y in zip(expected, found) for a, b in zip(x, y))
spread = max(max(x) - min(x) for x in expected)
print('%.2g' % worst)
sys.exit(not worst <= 2e-5 or not spread > 1)
PYTHON
# check MODEL STREAM IDS [CONTEXT]: logits of all positions with an F32 cache
check() {
    prefill -m "$1" --cache-type f32 --logits all --repack never ${4:+-c $4} "$2" >found 2>err || fail "prefill: $(brief err)"
    "$python" "$TOP/tests/tools/oracle.py" "$1" "$3" $4 >expected 2>err || fail "oracle: $(tail -n 1 err)"
    worst=$(python3 -S compare.py expected found 2>err) || fail "$1: largest difference ${worst:-unknown} ($(brief err))"
    echo "# $1: $worst"
}

for family in $("$MAKE" --list); do
    begin "$family: logits of 200 positions"
    "$MAKE" --family "$family" "$family.gguf" || fail "make-model"
    check "$family.gguf" ids "$ids"
done
begin "phi3-long: the short factors within the original context"
few=$(echo "$ids" | cut -d, -f1-100)
stream few "tokens([$few])"
check phi3-long.gguf few "$few" 120
cp expected short
"$python" "$TOP/tests/tools/oracle.py" phi3-long.gguf "$few" >expected
cmp -s short expected && fail "the factors do not matter"

begin "gemma2 with the layers of the largest: scores are scaled by dim / heads"
"$MAKE" --family gemma2 --layers 46 wide.gguf
check wide.gguf few "$few"
# varied KEY=VALUE MODEL: the setting has an effect, and it is the right one
varied() {
    "$python" "$TOP/tests/tools/oracle.py" --set "$1" "$2" >edited.gguf || fail "oracle.py"
    prefill -m "$2" --cache-type f32 --logits all few >before
    check edited.gguf few "$few"
    python3 -S compare.py expected before >/dev/null 2>&1 && fail "$1 does not matter"
}
begin "settings vary what they should"
varied qwen2moe.expert_weights_norm=true qwen2moe.gguf
varied qwen3moe.expert_weights_norm=false qwen3moe.gguf
varied llama.expert_weights_scale=2.5 mixtral.gguf
varied llama.expert_used_count=5 mixtral.gguf
varied qwen2.rope.scaling.yarn_beta_fast=1.5 qwen2-yarn.gguf
varied qwen2.rope.scaling.factor=9.0 qwen2-yarn.gguf
varied gemma2.rope.freq_base_swa=500.0 gemma2.gguf
varied gemma3.rope.freq_base_swa=500.0 gemma3.gguf
varied gemma3.attention.sliding_window_pattern=3 gemma3.gguf
varied gemma3.final_logit_softcapping=2.0 gemma3.gguf
varied phi3.attention.sliding_window=39 phi3.gguf
varied phi3.rope.dimension_count=8 phi3.gguf
varied granite.attention.scale=0.7 granite.gguf

begin "windows limit what is seen, not what is kept: a state can be cut back"
other=$(echo "$ids" | sed 's/^\(\([0-9]*,\)\{60\}\)[0-9]*/\17/')
stream other "tokens([$other])"
for model in mistral gemma2 gemma3 phi3; do
    prefill -m $model.gguf other >state
    prefill -m $model.gguf ids >fresh
    expect_status 0 prefill -v -m $model.gguf --reuse state ids
    expect_same out fresh
    grep -q '^prefill: .*140 ' err || fail "$model: not 140 positions evaluated: $(brief err)"
done
[ "$(stat -c %s fresh)" -eq "$(prefill -m phi3-long.gguf ids | wc -c)" ] || fail "a state with windows has another size"

begin "the kept layout, of fused matrices and of experts too, gives the same state"
export XDG_CACHE_HOME="$PWD/cache"
for model in 'phi3 Q8_0' 'mixtral Q4_K' 'qwen2moe Q4_0' 'gpt2 Q6_K'; do
    "$MAKE" --family ${model% *} --type ${model#* } kept.gguf
    prefill -m kept.gguf --repack never few >plain
    expect_status 0 prefill -v -m kept.gguf --repack only few
    expect_same out plain
    grep -q 'interleaved layout' err || fail "$model: $(brief err)"
done
unset XDG_CACHE_HOME

# refused KEY=VALUE MODEL PATTERN
refused() {
    "$python" "$TOP/tests/tools/oracle.py" --set "$1" "$2" >edited.gguf || fail "oracle.py"
    expect_status 1 prefill -m edited.gguf ids
    expect_error "^prefill: edited.gguf: $3"
}
accepted() {
    "$python" "$TOP/tests/tools/oracle.py" --set "$1" "$2" >edited.gguf || fail "oracle.py"
    expect_status 0 prefill -m edited.gguf few
    expect_no_error
}
begin "an unknown family is refused with the list of those that are known"
refused general.architecture=mamba llama.gguf "model family 'mamba' is not supported \(these are: llama, .*qwen3moe\)"
begin "a setting that is not implemented is refused by name and value"
refused llama.attention.max_alibi_bias=8.0 llama.gguf 'llama.attention.max_alibi_bias = 8 is not implemented'
refused llama.attention.causal=false llama.gguf 'llama.attention.causal = 0 is not implemented'
refused llama.logit_scale=0.5 llama.gguf 'llama.logit_scale = 0.5 is not implemented'
refused qwen2.attention.sliding_window=128 qwen2.gguf 'qwen2.attention.sliding_window = 128 is not implemented'
refused qwen3moe.expert_gating_func=2 qwen3moe.gguf 'qwen3moe.expert_gating_func = 2 is not implemented'
refused gemma3.attn_logit_softcapping=50.0 gemma3.gguf 'gemma3.attn_logit_softcapping = 50 is not implemented'
refused llama.rope.scaling.type=ntk llama.gguf "llama.rope.scaling.type: 'ntk' is not implemented"
begin "a setting that nobody knows is refused by name"
refused gemma3.rope.local.freq_base=10000.0 gemma3.gguf 'gemma3.rope.local.freq_base is not implemented'
refused llama.hidden_activation=relu llama.gguf 'llama.hidden_activation is not implemented'
begin "a setting whose value changes nothing is accepted"
accepted llama.attention.causal=true llama.gguf
accepted llama.expert_count=0 llama.gguf
accepted llama.logit_scale=1.0 llama.gguf
accepted qwen2.attention.sliding_window=512 qwen2.gguf
begin "wrong values"
refused llama.expert_used_count=7 mixtral.gguf 'llama.expert_used_count: expected 1 to 6, found 7'
refused granite.residual_scale=-1.0 granite.gguf 'granite.residual_scale: expected 0 or more, found -1'
refused llama.rope.dimension_count=5 llama.gguf 'llama.rope.dimension_count: expected an even number up to 16, found 5'
refused phi3.rope.scaling.type=yarn phi3-long.gguf 'tensor rope_factors_long.weight is not one that the forward pass of family phi3 uses'
refused general.architecture=qwen2moe qwen3.gguf 'qwen2moe.block_count is missing'
begin "a context beyond the learned positions"
expect_status 2 prefill -m gpt2.gguf -c 513 ids
expect_error 'a context of 513 positions was asked for, the model was made for 512'
finish
