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
{ cat good; hold_until got; } >slow &
penalize slow | sample | { head -c 128 >out; : >got; }
wait
[ ! -e gave-up ] || fail "nothing came before the input ended"
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
# ---- penalties: the worked numbers of the manual ----

begin "repetition: logits [2, -1, 0.5], R 2, tokens 0 and 1 have appeared"
stream seen 'tokens([0])' 'tokens([1], position=1, flags=GENERATED)' 'logits([2, -1, 0.5], position=1)'
expect_status 0 penalize --repeat-penalty 2 seen
expect_logits '1 -2 0.5'
expect_status 0 penalize seen
expect_logits '2 -1 0.5'
begin "presence and frequency: token 0 selected twice, frequency 0.5, presence 0.25: its logit loses 1.25"
stream twice 'tokens([2, 0])' 'tokens([0, 1, 0], position=2, flags=GENERATED)' 'logits([3, 3, 3, 3], position=4)'
expect_status 0 penalize --frequency-penalty 0.5 --presence-penalty 0.25 twice
expect_logits '1.75 2.25 3 3'
expect_status 0 penalize --frequency-penalty 0.5 --presence-penalty 0.25 --penalize-prompt twice
expect_logits '1.25 2.25 2.25 3'
expect_status 0 penalize --frequency-penalty -0.5 twice
expect_logits '4 3.5 3 3'
begin "repetition counts prompt and output, once; the order is bias, repetition, presence and frequency"
expect_status 0 penalize --repeat-penalty 2 twice
expect_logits '1.5 1.5 1.5 3'
expect_status 0 penalize --repeat-penalty 2 --presence-penalty 1 --bias 0=1 twice
expect_logits '1 0.5 1.5 3'
begin "the window: the last N tokens"
for option in --repeat-last-n --last; do
    expect_status 0 penalize --repeat-penalty 2 $option 2 twice
    expect_logits '1.5 1.5 3 3'
    expect_status 0 penalize --frequency-penalty 0.5 --presence-penalty 0.25 $option 2 twice
    expect_logits '2.25 2.25 3 3'
    expect_status 0 penalize --repeat-penalty 2 $option 0 twice
    expect_logits '3 3 3 3'
    expect_status 0 penalize --repeat-penalty 2 $option 5 twice
    expect_logits '1.5 1.5 1.5 3'
done
begin "of logits of several positions each has its own context"
stream several 'tokens([0, 1, 0])' 'logits([3, 3], position=0)' 'logits([3, 3], position=1)' 'logits([3, 3], position=2)'
expect_status 0 penalize --penalize-prompt --frequency-penalty 1 several
expect_logits '2 3
2 2
1 2'
begin "DRY: 0.8, 1.75, 2 after 1 2 3 4 9 1 2 3: token 4 loses 1.4"
stream again 'tokens([1, 2, 3, 4, 9, 1, 2, 3])' 'logits([5] * 10, position=7)'
expect_status 0 penalize --dry-multiplier 0.8 --dry-base 1.75 --dry-allowed-length 2 again
expect_logits '5 5 5 5 3.6 5 5 5 5 5'
cp out want
expect_status 0 penalize --dry-multiplier 0.8 again
expect_same out want
expect_status 0 penalize --dry-multiplier 0.5 --dry-base 3 --dry-allowed-length 1 again
expect_logits '5 5 5 5 0.5 5 5 5 5 5'
expect_status 0 penalize --dry-multiplier 0.8 --dry-allowed-length 3 again
expect_logits '5 5 5 5 4.2 5 5 5 5 5'
expect_status 0 penalize --dry-multiplier 0.8 --dry-allowed-length 4 again
expect_logits '5 5 5 5 5 5 5 5 5 5'
expect_status 0 penalize --dry-multiplier 0.8 --dry-penalty-last-n 7 again
expect_logits '5 5 5 5 4.2 5 5 5 5 5'
expect_status 0 penalize --dry-multiplier 0.8 --dry-penalty-last-n 0 again
expect_logits '5 5 5 5 5 5 5 5 5 5'
begin "DRY: a penalty is finite however long the repetition"
stream long 'tokens([1] * 3000)' 'logits([5, 5], position=2999)'
expect_status 0 penalize --dry-multiplier 1e6 --dry-base 1e6 long
expect_logits '5 -3.40282e+38'
# text_logits TEXT: the prompt's tokens, and level logits.
text_stream() {
    tokenize --append -- "$1" >text.tokens
    n=$(tokenize --append --ids -- "$1" | wc -l)
    stream text.logits "logits([5.0] * 2048, position=$((n - 1)))"
    cat text.tokens text.logits
}
# lost STREAM ID OPTION...: what the logit of a token loses.
lost() {
    file=$1 id=$2
    shift 2
    penalize "$@" "$file" >out 2>err || fail "penalize $*: $(brief err)"
    python3 -S "$TOP/tests/cli/stream.py" --logits out | awk -v id="$id" '{ printf "%.4g\n", 5 - $(id + 1) }'
}
two=$(tokenize --append --ids ' two' | cut -f 1)
begin "DRY: a sequence breaker ends the repetition; the usual ones do by themselves"
text_stream ' One two. One' >plain
text_stream ' the: One two. the: One' >broken
text_stream ' the One two. the One' >longer
[ "$(lost plain $two --dry-multiplier 1 --dry-allowed-length 1)" = 1 ] || fail "plain: $(lost plain $two --dry-multiplier 1 --dry-allowed-length 1)"
[ "$(lost longer $two --dry-multiplier 1 --dry-allowed-length 1)" = 1.75 ] || fail "longer: $(lost longer $two --dry-multiplier 1 --dry-allowed-length 1)"
[ "$(lost broken $two --dry-multiplier 1 --dry-allowed-length 1)" = 1 ] || fail "broken: $(lost broken $two --dry-multiplier 1 --dry-allowed-length 1)"
[ "$(lost broken $two --dry-multiplier 1)" = 0 ] || fail "broken, 2: $(lost broken $two --dry-multiplier 1)"
[ "$(lost broken $two --dry-multiplier 1 --dry-sequence-breaker none)" = 1.75 ] || fail "none: $(lost broken $two --dry-multiplier 1 --dry-sequence-breaker none)"
begin "DRY: a breaker may be a part of a token, or go over several; a token that completes one is not penalized"
[ "$(lost longer $two --dry-multiplier 1 --dry-sequence-breaker 'he On')" = 0 ] || fail "over two"
[ "$(lost longer $two --dry-multiplier 1 --dry-allowed-length 1 --dry-sequence-breaker 'he')" = 1 ] || fail "part of one"
[ "$(lost longer $two --dry-multiplier 1 --dry-sequence-breaker 'One tw')" = 0 ] || fail "completed"
[ "$(lost longer $two --dry-multiplier 1 --dry-sequence-breaker 'One tx')" = 1 ] || fail "not completed"
[ "$(lost longer $two --dry-multiplier 1 --dry-sequence-breaker '"\x20t"' --dry-sequence-breaker q)" = 0 ] || fail "escaped"
begin "DRY: wrong breakers"
expect_status 2 penalize --dry-multiplier 1 --dry-sequence-breaker '' longer
expect_error '^penalize: --dry-sequence-breaker: expected a text without zero bytes, found an empty one'
expect_status 2 penalize --dry-multiplier 1 --dry-sequence-breaker '"a\x00"' longer
expect_error '^penalize: --dry-sequence-breaker: expected a text without zero bytes'
stream foreign_dry 'tokens([1])' 'logits({3: 1.5}, n=2000, binding=5)'
expect_status 1 penalize --dry-multiplier 1 foreign_dry
expect_error 'made with vocabulary 00000005, but that of .* is [0-9a-f]{8} \(--dry-multiplier needs'
expect_status 0 penalize --dry-multiplier 1 --dry-sequence-breaker none foreign_dry
begin "after FORK the context is that of the copy"
stream forked 'tokens([1, 2, 3], flags=GENERATED)' 'fork(0, 1, sequence=1)' 'logits([5] * 4, position=0, sequence=1)' 'fork(0, 2)' 'logits([5] * 4, position=1)'
expect_status 0 penalize --presence-penalty 1 forked
expect_logits '5 4 5 5
5 4 4 5'
begin "two filters, one after the other, are one with both options"
penalize --repeat-penalty 1.3 twice | penalize --presence-penalty 0.7 >a
penalize --repeat-penalty 1.3 --presence-penalty 0.7 twice >b
expect_same a b

# ---- names ----

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

begin "one text by hand, in the loop, in generate, and in a batch beside another"
penalties='--repeat-penalty 1.3 --frequency-penalty 0.4 --presence-penalty 0.2 --repeat-last-n 20 --dry-multiplier 0.8 --dry-allowed-length 1'
draw='--temp 1.5 --top-k 30 --typical 0.95 --xtc-probability 0.4 --xtc-threshold 0.05 --dynatemp-range 0.3 -s 7'
prompt='Once upon a time there was a little'
tokenize "$prompt" | prefill >once
# fifo_loop STATE OPTION...: what sample answers.
fifo_loop() {
    state=$1
    shift
    rm -f back
    mkfifo back
    { if prefill "$state"; then cat back; else : <back; fi; } | decode-step --stream | penalize $penalties | sample $draw "$@" | tee back
}
fifo_loop once -n 30 >looped
detok looped >a
generate $penalties $draw -n 30 "$prompt" >b
[ "$(wc -c <a)" -gt 30 ] || fail "the text is '$(cat a)'"
expect_same a b
cp once state
: >answers
for i in $(seq "$(shown looped | grep -c TOKENS)"); do
    penalize $penalties state | sample $draw >token
    cat token >>answers
    decode-step state token >next && mv next state
done
detok answers >c
expect_same a c
{ tokenize --sequence 3 'The capital of Italy is a'; tokenize "$prompt"; } | prefill >both
fifo_loop both -n 30 | detok --sequence 0 >d
expect_same a d
generate $draw -n 30 "$prompt" >b
! cmp -s a b || fail "the penalties changed nothing"
begin "of logits of all positions the last are answered, whatever filter stands between"
tokenize "$(head -c 400 "$TOP/README.md")" >prompt.tokens
prefill prompt.tokens | penalize --ban 5 | sample >want
prefill --logits all prompt.tokens | penalize --ban 5 | sample >got
expect_same want got
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
