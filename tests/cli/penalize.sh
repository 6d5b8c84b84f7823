# penalize: what it does to logits, what it passes on, and what it makes of bad streams and options.
. "$TOP/tests/cli/lib.sh"
prose=$BIN/unroll-small.gguf

check_help penalize
stream good 'model(n_context=8, eog=[4])' 'tokens([1, 2])' 'logits({3: 1.5}, position=1)'
check_input penalize good
check_output penalize good

# expect_records 'line|line': what was written, one record in a line.
expect_records() {
    shown out | tr '\n' '|' >got
    printf '%s' "$1|" >want
    cmp -s want got || fail "wrote '$(cat got)', expected '$(cat want)'"
}
# expect_logits 'numbers': those of the LOGITS in ./out, a line for each record.
expect_logits() {
    python3 -S "$TOP/tests/cli/stream.py" --logits out >got || fail "no stream"
    printf '%s\n' "$1" >want
    cmp -s want got || fail "wrote logits '$(brief got)', expected '$(brief want)'"
}

# ---- the filter ----

begin "everything but CACHE goes on, in its order, with its flags; LOGITS have their mark before them"
stream all 'model()' 'cache(2, flags=OPEN)' 'tokens([1, 2], flags=OPEN)' 'record(200, b"hello", position=7)' 'logits({3: 1}, position=1, flags=OPEN)' \
    'tokens([3], position=2, flags=GENERATED | HELD | OPEN)' 'logits({3: 1}, position=2)' 'fork(0, 2, sequence=1)' 'end("eos", token=4)'
expect_status 0 penalize all
expect_records "MODEL|TOKENS OPEN sequence=0 position=0 ids=1,2|ancillary 200 sequence=0 position=7|RAW sequence=0 position=1 count=0|\
LOGITS OPEN sequence=0 position=1 count=10|TOKENS HELD OPEN GENERATED sequence=0 position=2 ids=3|RAW sequence=0 position=2 count=0|\
LOGITS sequence=0 position=2 count=10|FORK sequence=1 position=2|END sequence=0 position=0 eos token=4"
begin "--keep-raw: the logits as they came go before those that were changed; a second filter adds nothing"
stream bare 'logits([3, 2, 1], position=7)'
expect_status 0 penalize --keep-raw --bias 0=-2 bare
expect_records 'RAW sequence=0 position=7 count=3|LOGITS sequence=0 position=7 count=3'
expect_logits '1 2 1'
stream wanted 'raw([3, 2, 1], position=7)' 'logits([1, 2, 1], position=7)'
expect_same out wanted
expect_status_from wanted 0 penalize --keep-raw --bias 1=5
stream wanted 'raw([3, 2, 1], position=7)' 'logits([1, 7, 1], position=7)'
expect_same out wanted
penalize bare >once
expect_status_from once 0 penalize --keep-raw --bias 1=5
expect_records 'RAW sequence=0 position=7 count=0|LOGITS sequence=0 position=7 count=3'
begin "a RAW record of another sequence or position says nothing of these logits"
stream other 'raw([3, 2, 1], position=6)' 'raw([3, 2, 1], position=7, sequence=2)' 'logits([1, 2, 1], position=7)'
expect_status 0 penalize other
expect_records 'RAW sequence=0 position=6 count=3|RAW sequence=2 position=7 count=3|RAW sequence=0 position=7 count=0|LOGITS sequence=0 position=7 count=3'
begin "each record is flushed when it has come"
mkfifo slow
{ cat good; sleep 5; } >slow &
timeout 3 penalize slow | timeout 2 sample >out
wait
stream first 'tokens([3], position=2, flags=GENERATED)'
expect_same out first
begin "deflated logits go on inflated, an open position is filled in"
stream deflated 'tokens([1, 2], position=APPEND)' 'logits([0] * 999 + [1], deflate=True, position=APPEND)'
expect_status 0 penalize --bias 0=1 deflated
expect_records 'TOKENS sequence=0 position=0 ids=1,2|RAW sequence=0 position=1 count=0|LOGITS sequence=0 position=1 count=1000'

# ---- biases ----

begin "--bias, --logit-bias, --ban, --allow"
stream bare 'logits([3, 2, 1, 0])'
for words in '--bias 0=-2.5' '--logit-bias 0-2.5' '--logit-bias 0=-2.5' '--bias 0=-1 --bias 0=-1.5'; do
    expect_status 0 penalize $words bare
    expect_logits '0.5 2 1 0'
done
expect_status 0 penalize --logit-bias 3+7 --bias 2=-inf bare
expect_logits '3 2 -inf 7'
expect_status 0 penalize --bias 2=1 --ban 2 --ban 0,3 bare
expect_logits '-inf 2 -inf -inf'
expect_status 0 penalize --allow 2 --allow 1,2 bare
expect_logits '-inf 2 1 -inf'
expect_status 0 penalize --allow 1,2 --ban 1 bare
expect_logits '-inf -inf 1 -inf'
begin "texts name tokens of the vocabulary, exactly"
paris=$(tokenize --append --ids ' Paris' | cut -f 1)
tokenize 'The capital of France is' | prefill >s0
[ "$(penalize --ban ' Paris' s0 | sample | detok)" != ' Paris' ] || fail "Paris was selected"
penalize --ban ' Paris' s0 >a
penalize --ban "$paris" s0 >b
penalize --bias '" \x50aris"=-inf' s0 >c
expect_same a b
expect_same a c
expect_status 2 penalize --ban ' Paris.' s0
expect_error '^penalize: --ban: expected a text that is one token, found " Paris\.", which is 2: [0-9]+ " Paris", [0-9]+ "\."$'
expect_status 2 penalize --ban '' s0
expect_error '^penalize: --ban: expected a text that is one token, found "", which is 0$'
expect_status 2 penalize --bias '"\q"=1' s0
expect_error '^penalize: --bias: expected the escapes'
begin "--bias-file: a bias in a line"
printf '# a comment\n\n%s=-inf\r\n"."=2\n=0.25=-1' "$paris" >list
expect_status 1 penalize --bias-file list s0
expect_error '^penalize: --bias-file: list: line 5: expected'
printf '# a comment\n\n%s=-inf\r\n"."=2\n,=0.25' "$paris" >list
expect_status 0 penalize --bias-file list s0
cp out a
penalize --bias .=2 --ban ' Paris' --bias ,=0.25 s0 >b
expect_same a b
expect_status 3 penalize --bias-file nowhere s0
expect_error '^penalize: --bias-file: nowhere: cannot open: No such file'
begin "a text needs the vocabulary of the stream; ids do not"
stream foreign 'logits({3: 1.5}, n=2000, binding=5)'
expect_status 1 penalize --ban ' Paris' foreign
expect_error "^penalize: foreign: record 1 \(LOGITS\): made with vocabulary 00000005, but that of '.*' is [0-9a-f]{8} \(--ban needs the stream's own\)"
expect_status 0 penalize --ban 3 -m no-such-model foreign
expect_status 3 penalize --ban x -m no-such-model foreign
expect_error 'no-such-model: cannot open'
begin "an id that the logits do not have"
expect_status 1 penalize --ban 1 --bias 4=1 bare
expect_error '^penalize: bare: record 1 \(LOGITS\): --bias names token 4, but there are logits of 4 tokens'
begin "wrong biases"
for word in 5 5= =5 5=x 5=inf 5=nan 5=2e6 5+ 5-x 5++1 99999999999=1; do
    expect_status 2 penalize --bias "$word" bare
    expect_error '^penalize: --bias: expected '
done
begin "nothing that can be selected is an error of sample"
penalize --ban 0,1,2,3 bare >none
expect_status 1 sample none
expect_error 'no token can be selected for position 1'
begin "in the loop"
mkfifo back
{ if prefill s0; then cat back; else : <back; fi; } | decode-step --stream | penalize --keep-raw --ban ' Paris' |
    sample -n 50 | tee back | detok >out
expect_bytes ' France.'

begin "generate starts it when one of its options is given, and only then"
expect_status 0 generate --ban ' Paris' 'The capital of France is'
expect_bytes ' France.'
expect_status 2 generate --ban ' Paris.' 'The capital of France is'
expect_error '^penalize: --ban: expected a text that is one token'
expect_status 0 generate 'The capital of France is'
expect_bytes ' Paris.'
begin "generate: -v, --trace and --echo see the model's own logits before it"
expect_status 0 generate --trace --echo --ban ' Paris' -n 1 'The capital of France is'
expect_bytes 'The capital of France is France'
grep -Eq '^ +5 .* France +0\.0[0-9]+ .* Paris +[01]\.[0-9]+ ' err || fail "traced $(brief err)"

finish
