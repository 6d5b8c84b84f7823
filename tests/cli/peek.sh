# peek: every record in words, model files, and --tee.
. "$TOP/tests/cli/lib.sh"
small=$BIN/unroll-small.gguf
stories=$UNROLL_TEST_DATA/stories/stories260K.gguf

check_help peek
stream good 'model(n_layers=2, eog=[4, 9])' 'cache(2, bytes_each=16, flags=OPEN)' 'tokens([1, 2], flags=OPEN)' \
    'logits({3: 2, 4: 1}, position=1)'
check_input peek good
check_output peek good

begin "MODEL, CACHE, TOKENS and LOGITS"
expect_status 0 peek good
expect_no_error
expect_match '^record 1: MODEL, model 0000004d, [0-9]+ bytes$'
expect_match '^  name +toy$'
expect_match '^  layers +2$'
expect_match '^  cache type +F16$'
expect_match '^  BOS +none$'
expect_match '^  RoPE base +10000$'
expect_match '^  model fingerprint +0000004d$'
expect_match '^  EOG tokens +2: 4, 9$'
expect_match '^  cache of a position +16 bytes$'
expect_match '^record 2: CACHE, sequence 0, positions 0 to 1, OPEN, model 0000004d, 32 bytes$'
expect_match '^  2 positions, 16 bytes in each of 2 layers, 32 bytes in all$'
expect_match '^record 3: TOKENS, sequence 0, positions 0 to 1, OPEN, 8 bytes$'
expect_match '^  1 2$'
expect_match '^record 4: LOGITS, sequence 0, after position 1, 40 bytes$'
expect_match '^ +3 +2.0000  0.408070  #{16}$' # e^2 / (e^2 + e + 8)
expect_match '^ +4 +1.0000  0.150120  #{6}$'
expect_match '^ +9 +0.0000  0.055226  ##$'
expect_match '^sequence 0: 2 tokens at positions 0 to 1; 2 positions cached: 16 bytes a layer, 32 in all$'
expect_match '^4 records, [0-9]+ bytes$'
begin "a GGUF file where a stream is expected is called by its name"
for command in "peek -" sample detok "penalize"; do
    $command <"$TOP/examples/model/unroll-small.gguf" >out 2>err
    [ $? -eq 1 ] || fail "$command: status"
    expect_error "^${command% -}: .*not a record: a model file \(GGUF\), which is given by its name"
done
begin "of a GGUF file: the kernels that would compute, which UNROLL_CPU names"
expect_status 0 peek "$TOP/examples/model/unroll-small.gguf"
expect_match '^this machine computes with the (generic|avx2|avx512|amx) kernels$'
UNROLL_CPU=generic expect_status 0 peek "$TOP/examples/model/unroll-small.gguf"
expect_match '^this machine computes with the generic kernels$'
UNROLL_CPU=nonsense expect_status 2 peek "$TOP/examples/model/unroll-small.gguf"
expect_error 'nonsense'
begin "FORK, END and records that it does not know"
stream others 'tokens([1, 2, 3], flags=GENERATED|HELD)' 'fork(0, 2, stream=7, sequence=1)' 'end("stop", position=3, token=3, trim=4, text=b"a\n\x1b[2J")' \
    'record(200, b"something\x00new", sequence=9)' 'tokens([4], position=APPEND, sequence=1)'
expect_status 0 peek others
expect_match '^record 1: TOKENS, sequence 0, positions 0 to 2, GENERATED, HELD, 12 bytes$'
expect_match '^record 2: FORK, sequence 1, 8 bytes$'
expect_match '^  the first 2 positions of sequence 0, draw stream 7$'
expect_match '^record 3: END, sequence 0, position 3, 18 bytes$'
expect_match '^  reason stop, token 3, text "a\\n\\x1b\[2J", 4 bytes of the text to be cut$'
expect_match '^record 4: ancillary 200, sequence 9, 13 bytes$'
expect_match '^  "something\\x00new"$'
expect_match '^record 5: TOKENS, sequence 1, position 2, 4 bytes$'
expect_match '^sequence 0: 3 tokens at positions 0 to 2, 3 generated; ended$'
grep -q kernels out && fail "names a kernel for a stream without a model"
begin "tokens whose position is open, and none"
stream open 'tokens([1, 2], position=APPEND)' 'tokens([], sequence=1)'
expect_status 0 peek open
expect_match '^record 1: TOKENS, sequence 0, 2 to be appended, 8 bytes$'
expect_match '^record 2: TOKENS, sequence 1, nothing at position 0, 0 bytes$'
begin "deflated records"
stream deflated 'logits([1.0] * 500, deflate=True)'
expect_status 0 peek deflated
expect_match '^record 1: LOGITS, sequence 0, after position 0, 2000 bytes deflated to [0-9]+$'
expect_match '^ +0 +1.0000  0.002000$'
begin "--top"
expect_status 0 peek --top 2 good
[ "$(grep -c '^ .*\.[0-9][0-9][0-9][0-9]  ' out)" = 2 ] || fail "$(brief out)"
expect_status 0 peek --top 1000 good
[ "$(grep -c '^ .*\.[0-9][0-9][0-9][0-9]  ' out)" = 10 ] || fail "$(brief out)"
expect_status 0 peek --top 0 good
begin "logits that are no distribution"
stream bad 'logits([1, float("nan"), float("inf"), float("-inf")])' 'logits([float("-inf")] * 3)' 'logits([1, float("-inf")])'
expect_status 0 peek bad
expect_match '^  no distribution: 1 NaN, 1 \+infinity, 1 -infinity$'
expect_match '^  no distribution: 0 NaN, 0 \+infinity, 3 -infinity$'
expect_match '^  1 of 2 tokens are impossible'
expect_match '^ +0 +1.0000  1.000000  #{40}$'
begin "RAW and LOGPROBS"
stream told 'raw([3, 2, 1], position=4)' 'logits([3, 7, 1], position=4)' 'logprobs(1, -0.5, -0.25, [(0, -0.4), (1, -0.5)], [(1, -0.25)], position=5)' \
    'raw([], position=4)' 'logprobs(1, None, 0)' 'record(RAW, b"123", count=9)'
expect_status 0 peek told
expect_match '^record 1: RAW, sequence 0, after position 4, 12 bytes$'
expect_match '^ +0 +3.0000  0.665241'
expect_match '^record 3: LOGPROBS, sequence 0, position 5, 68 bytes$'
expect_match '^  raw +1 +-0.5000  0.606531$'
expect_match '^  processed +1 +-0.2500  0.778801$'
expect_match '^  best, raw +0 +-0.4000  0.670320$'
expect_match '^  best, processed +1 +-0.2500  0.778801$'
expect_match '^  the logits that follow were changed; those of the model were not kept$'
expect_match '^  raw +none: a filter did not keep'
stream bad 'record(LOGPROBS, bytes(33))'
expect_status 1 peek bad
expect_error '^peek: bad: record 1 \(LOGPROBS\): LOGPROBS of 33 bytes, expected 32 for 0 and 0 entries'
begin "long lists are shortened, with -v they are not"
stream long 'tokens(list(range(1000, 1100)))'
expect_status 0 peek long
expect_match '^  1000 1001 1002 .* 1011$'
expect_match '^  ... 60 more \(-v shows all\)$'
expect_match '1099$'
grep -q 1050 out && fail "shows all"
expect_status 0 peek -v long
grep -o '1[0-9][0-9][0-9]' out | sort -u | wc -l >count
[ "$(cat count)" = 100 ] || fail "shows $(cat count) ids with -v"
begin "texts, where a vocabulary fits"
tokenize 'The capital of France' >prose
expect_status 0 peek prose
expect_match '^ +0 +[0-9]+  "The"$'
expect_match '^ +3 +[0-9]+  " France"$'
expect_status 0 peek -m "$small" prose
expect_match '" France"'
stream bound 'tokens([5], binding=6)'
expect_status 0 peek bound
expect_no_error
expect_match '^  5$'
expect_status 0 peek -m "$small" bound
expect_error "ids only: the stream's vocabulary is 00000006, but that of '$small' is [0-9a-f]{8}"
stream unbound 'tokens([5])'
expect_status 0 peek unbound
expect_match '^  5$'
expect_status 0 peek -m "$small" unbound
expect_match '^ +0 +5  "'
UNROLL_MODEL=nowhere.gguf expect_status 0 peek prose
expect_no_error
expect_status 3 peek -m nowhere.gguf prose
expect_error '^peek: nowhere.gguf: cannot open'
begin "a damaged record: everything before it is shown"
head -c 530 good >cut
expect_status 1 peek cut
expect_error '^peek: cut: record 4 \(LOGITS\): cut off'
expect_match '^record 3: TOKENS'
python3 -S - <<'END'
data = bytearray(open("good", "rb").read())
data[data.index(b"UNR1\x03") + 70] ^= 1
open("flipped", "wb").write(data)
END
expect_status 1 peek flipped
expect_error '^peek: flipped: record 2 \(CACHE\): payload is damaged'
expect_match '^record 1: MODEL'
begin "a stream that was cut off at a record's border"
stream cut 'tokens([1], flags=OPEN)'
expect_status 1 peek cut
expect_error 'cut off: the input ended while sequence 0 was open'
expect_match '^record 1: TOKENS'

begin "--tee passes everything on, unchanged"
expect_status 0 peek --tee good
expect_same good out
grep -q '^record 4: LOGITS' err || fail "shows nothing on standard error"
expect_status_from others 0 peek --tee good -
cat good others >both
expect_same both out
expect_status 0 sh -c 'cat good | peek --tee 2>/dev/null | sample | peek'
expect_match '^ +2 +3|^  3$'
begin "--tee passes on what is damaged too"
cat flipped good >damaged
expect_status_from damaged 1 peek --tee
expect_same damaged out
grep -q 'record 2 (CACHE): payload is damaged' err || fail "said $(brief err)"
head -c 100000 /dev/urandom >noise
expect_status_from noise 1 peek --tee
expect_same noise out
begin "--tee: /dev/full, a closed reader, a terminal"
expect_status 3 sh -c 'exec peek --tee good >/dev/full'
grep -q 'cannot write.*No space left' err || fail "said $(brief err)"
{ sleep 0.1; peek --tee good 2>err; echo $? >status; } | :
[ "$(cat status)" = 141 ] || fail "status $(cat status), expected 141"
expect_status 2 on_terminal "peek --tee good"
expect_match 'is a terminal and the output is binary'
expect_status 0 on_terminal "peek --tee --force good 2>/dev/null"
expect_match 'UNR1'
begin "--tee in the loop"
mkfifo back
{ tokenize 'The capital of France is' | prefill; cat back; } | decode-step --stream | peek --tee 2>questions |
    sample -n 20 | peek --tee 2>answers | tee back | detok >out
generate -n 20 'The capital of France is' >want
expect_same want out
grep -q '^record 4: ' answers || fail "saw $(brief answers)"

begin "a model file: values, tensors, totals"
expect_status 0 peek "$small"
expect_no_error
expect_match '^GGUF version 3, [0-9]+ values, [0-9]+ tensors, 1 file, [0-9]+ bytes$'
[ "$(sed -n '1s/.*, \([0-9]*\) bytes$/\1/p' out)" = "$(wc -c <"$small")" ] || fail "$(head -n 1 out)"
expect_match '^  general.architecture +string +"llama"$'
expect_match '^  tokenizer.ggml.tokens +string\[[0-9]+\] +".*" \.\.\. \(-v shows all [0-9]+\)$'
expect_match '^  token_embd.weight +[A-Z0-9_]+ +[0-9]+ x [0-9]+ +[0-9]+ bytes$'
expect_match '^  all +[0-9]+ tensors +[0-9]+ weights +[0-9]+ bytes +[0-9.]+ bits a weight$'
expect_match '^this machine computes'
[ "$(grep -c '^  .* bytes$' out)" = "$(sed -n '1s/.*, \([0-9]*\) tensors.*/\1/p' out)" ] || fail "not a line for each tensor"
begin "a model file with -v: everything"
expect_status 0 peek -v "$small"
grep -q 'shows all' out && fail "something is shortened"
expect_match '^  tokenizer.ggml.tokens .*" France"|^  tokenizer.ggml.tokens .*France'
begin "several model files; models and streams do not mix"
expect_status 0 peek "$small" "$small"
[ "$(grep -c '^GGUF' out)" = 2 ] || fail "$(brief out)"
expect_status 2 peek "$small" good
expect_error 'record streams or GGUF files, not both'
expect_status 2 peek --tee "$small"
expect_error 'passes on streams only'
begin "a damaged model file"
head -c 1000 "$small" >half.gguf
expect_status 1 peek half.gguf
expect_error '^peek: half.gguf: '
expect_status 3 sh -c "exec peek '$small' >/dev/full"
if [ -r "$stories" ]; then
    begin "another model file"
    expect_status 0 peek "$stories"
    expect_match '^  llama.attention.layer_norm_rms_epsilon +f32 +1e-05$'
    expect_match '^  F32 +48 tensors'
else
    skip "another model file" "there is no $stories"
fi

finish
