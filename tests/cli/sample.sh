# sample: selection, seeds, stopping, and what it makes of bad streams.
. "$TOP/tests/cli/lib.sh"
prose=$BIN/unroll-small.gguf

check_help sample
stream good 'model(n_context=8, eog=[4])' 'tokens([1, 2])' 'logits({3: 1.5}, position=1)'
check_input sample good
check_output sample good

# expect_records 'line|line': what sample wrote, one record in a line.
expect_records() {
    shown out | tr '\n' '|' >got
    printf '%s' "$1|" >want
    cmp -s want got || fail "wrote '$(cat got)', expected '$(cat want)'"
}

begin "the most probable token, in one record"
expect_status 0 sample good
expect_records 'TOKENS GENERATED sequence=0 position=2 ids=3'
expect_no_error
begin "from standard input, a pipe, and -o FILE"
expect_status_from good 0 sample
expect_records 'TOKENS GENERATED sequence=0 position=2 ids=3'
expect_status 0 sh -c 'cat good | sample -'
expect_records 'TOKENS GENERATED sequence=0 position=2 ids=3'
expect_status 0 sample -o chosen good
cp chosen out
expect_records 'TOKENS GENERATED sequence=0 position=2 ids=3'
begin "a failure leaves the old -o FILE"
stream bad 'logits([1, float("nan")])'
cp chosen before
expect_status 1 sample -o chosen bad
expect_same chosen before
begin "a bare LOGITS record is enough"
stream bare 'logits({3: 1.5, 5: 1.5}, position=7, binding=12)'
expect_status 0 sample bare
expect_records 'TOKENS GENERATED sequence=0 position=8 ids=3'
begin "the answer to OPEN logits is OPEN"
stream open 'logits({3: 1}, flags=OPEN)' 'end("dropped")'
expect_status 0 sample open
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=3'
begin "input that ends while a sequence is open was cut off, and that is passed on"
stream cut 'logits({3: 1}, flags=OPEN)'
expect_status 1 sample cut
expect_error '^sample: cut: cut off: the input ended while sequence 0 was open'
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=3|END sequence=0 position=append error cut: cut off: the input ended while sequence 0 was open (the stage before failed, or its file is incomplete)'
begin "padding of the vocabulary is never selected"
stream padded 'model(n_vocabulary=6)' 'logits({3: 1, 6: 5, 9: 7})'
expect_status 0 sample padded
expect_records 'TOKENS GENERATED sequence=0 position=1 ids=3'
begin "of a state with logits of all positions only the last are answered"
stream all 'model()' 'cache(2)' 'tokens([1, 2], flags=OPEN)' 'logits({3: 1}, position=0, flags=OPEN)' \
    'logits({4: 1}, position=1)'
expect_status 0 sample all
expect_records 'TOKENS GENERATED sequence=0 position=2 ids=4'
stream pages 'model()' 'cache(2, flags=OPEN)' 'tokens([1, 2], flags=OPEN)' 'logits({3: 1}, position=0, flags=OPEN)' \
    'logits({4: 1}, position=1, flags=OPEN)' 'cache(1, position=2, flags=OPEN)' 'tokens([7], position=2, flags=OPEN)' 'logits({5: 1}, position=2)'
expect_status 0 sample pages
expect_records 'TOKENS GENERATED sequence=0 position=3 ids=5'
begin "sequences are answered each for itself"
stream two 'model(eog=[4])' 'tokens([1], sequence=8)' 'tokens([1, 1], sequence=9)' 'logits({4: 1}, sequence=8)' \
    'logits({5: 1}, position=1, sequence=9)'
expect_status 0 sample two
expect_records 'TOKENS OPEN GENERATED sequence=8 position=1 ids=4|END sequence=8 position=2 eos token=4|TOKENS GENERATED sequence=9 position=2 ids=5'

begin "EOS ends, after its token"
stream eos 'model(eog=[2, 4])' 'tokens([1])' 'logits({4: 1}, flags=OPEN)' 'end("eos", position=2)'
expect_status 0 sample -v eos
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=4|END sequence=0 position=2 eos token=4'
grep -q 'sample: sequence 0: end (eos) at position 2, after 1 tokens' err || fail "said $(brief err)"
begin "--ignore-eos: no token of the set is selected"
expect_status 0 sample --ignore-eos eos
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=0'
begin "-n ends after as many tokens, -n 0 before any"
stream three 'logits({4: 1}, flags=OPEN)' 'logits({5: 1}, position=1, flags=OPEN)' 'logits({6: 1}, position=2, flags=OPEN)' 'end("length")'
expect_status 0 sample -n 2 three
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=4|TOKENS OPEN GENERATED sequence=0 position=2 ids=5|END sequence=0 position=3 length'
expect_status 0 sample -n 0 three
expect_records 'END sequence=0 position=1 length'
begin "EOS as the last of -n tokens ends as EOS"
expect_status 0 sample -n 1 eos
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=4|END sequence=0 position=2 eos token=4'
begin "a full context ends exactly where the next position does not exist"
stream full 'model(n_context=3)' 'tokens([1, 1])' 'logits({4: 1}, position=1, flags=OPEN)' 'tokens([4], position=2, flags=GENERATED)' \
    'logits({5: 1}, position=2, flags=OPEN)' 'end("context")'
expect_status 0 sample full
expect_records 'TOKENS OPEN GENERATED sequence=0 position=2 ids=4|END sequence=0 position=3 context'
begin "after END of a sequence its logits are not answered"
stream later 'model(eog=[4])' 'logits({4: 1})' 'logits({5: 1}, position=1)' 'logits({5: 1}, sequence=1)'
expect_status 0 sample later
expect_records 'TOKENS OPEN GENERATED sequence=0 position=1 ids=4|END sequence=0 position=2 eos token=4|TOKENS GENERATED sequence=1 position=1 ids=5'
begin "when all ENDs have come back the output is closed and the input read to its end"
mkfifo slow
stream first 'model(eog=[4])' 'tokens([1], flags=OPEN)' 'logits({4: 1}, flags=OPEN)' 'end("eos", position=2)'
mkfifo answers
rm -f status
{ cat first; cat slow; } | { (exec sample >answers); echo $? >status; } &
{ cat answers >out; echo yes >closed; } &
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ -s closed ] || sleep 0.2
done
[ -s closed ] || fail "the output is still open"
[ ! -s status ] || fail "sample did not wait for the end of its input"
stream rest 'tokens([4], position=1, flags=GENERATED)'
cat rest >slow
wait
rm answers
[ "$(cat status)" = 0 ] || fail "status $(cat status)"
begin "a sequence that begins when all have ended is refused"
stream again 'model(eog=[4])' 'logits({4: 1}, flags=OPEN)' 'end("eos")' 'logits({5: 1}, sequence=1)'
expect_status 1 sample again
expect_error 'again: record 4 \(LOGITS\): sequence 1 begins after all others have ended'

begin "NaN, +infinity, and nothing but -infinity are errors with the position"
for value in 'nan NaN' 'inf [+]infinity'; do
    stream bad "logits([1, 2, float('${value% *}')], position=41)"
    for t in 0 1; do
        expect_status 1 sample --temp $t bad
        expect_error "^sample: bad: record 1 \(LOGITS\): the logit of token 2 for position 42 is ${value#* }"
    done
done
stream bad 'logits([float("-inf")] * 3, position=41)'
expect_status 1 sample bad
expect_error 'no token can be selected for position 42'

# draws OPTION...: the ids of 2000 draws from probabilities 1/2, 1/4, 1/8, 1/16, 1/16, counted: "id:times".
begin "the filters and the draw"
python3 -S - >many <<'END' || fail "cannot make the stream"
import sys
sys.path.insert(0, __import__("os").environ["TOP"] + "/tests/cli")
sys.dont_write_bytecode = True
from math import log
from stream import *
for position in range(2000):
    sys.stdout.buffer.write(logits([log(p) for p in (1/16, 1/2, 1/4, 1/8, 1/16)], position=position))
END
draws() {
    sample "$@" many >out 2>err || fail "sample $*: $(brief err)"
    shown out | sed 's/.*ids=//' | sort -n | uniq -c | awk '{ printf "%s:%s ", $2, $1 }'
}
near() { # near 'id:times ...' 'id:expected ...': the same ids, times within 5 standard deviations
    python3 -S - "$1" "$2" <<'END' || fail "drew $1, expected about $2"
import sys
a, b = (dict(map(int, x.split(":")) for x in s.split()) for s in sys.argv[1:])
sys.exit(a.keys() != b.keys() or any(abs(a[i] - b[i]) > 5 * (b[i] * (1 - b[i] / 2000)) ** .5 for i in a))
END
}
near "$(draws --temp 1)" '0:125 1:1000 2:500 3:250 4:125'
near "$(draws --temp 1 --top-k 0)" '0:125 1:1000 2:500 3:250 4:125'
near "$(draws --temp 1 --top-k 5)" '0:125 1:1000 2:500 3:250 4:125'
near "$(draws --temp 1 --top-k 2)" '1:1333 2:667'
near "$(draws --temp 1 --top-k 4)" '0:133 1:1067 2:533 3:267'
near "$(draws --temp 1 --top-p 0.74)" '1:1333 2:667'
near "$(draws --temp 1 --top-p 0.76)" '1:1143 2:571 3:286'
near "$(draws --temp 1 --top-p 0)" '1:2000'
near "$(draws --temp 1 --min-p 0.24)" '1:1143 2:571 3:286'
near "$(draws --temp 1 --min-p 1)" '1:2000'
near "$(draws --temp 0.5)" '0:23 1:1463 2:366 3:91 4:23' # squares, over 22/64... renormalised
near "$(draws --temp 0)" '1:2000'
near "$(draws)" '1:2000'
near "$(draws --temp 1 --typical 0.2)" '2:2000' # entropy 1.3 nats, -log p of 2: 1.386
near "$(draws --temp 1 --typical 0.7)" '1:1333 2:667'
near "$(draws --temp 1 --top-n-sigma 0.5)" '1:2000'
near "$(draws --temp 1 --xtc-probability 1 --xtc-threshold 0.2)" '0:250 2:1000 3:500 4:250'
near "$(draws --temp 1 --xtc-probability 1)" '0:500 3:1000 4:500'
near "$(draws --temp 1 --xtc-probability 1 --xtc-threshold 0.51)" '0:125 1:1000 2:500 3:250 4:125'
near "$(draws --temp 1 --xtc-probability 0.5 --xtc-threshold 0.2)" '0:187 1:500 2:750 3:375 4:188'
# entropy 1.2996 of at most log 5 = 1.6094: temperature 0.5 + 0.8075
near "$(draws --temp 1 --dynatemp-range 0.5)" '0:192 1:941 2:554 3:326 4:192'
# 0.5 + 0.8075 ^ 4
near "$(draws --temp 1 --dynatemp-range 0.5 --dynatemp-exp 4)" '0:104 1:1065 2:506 3:238 4:104'
begin "the order of the steps: logits 3, 2, 1, top-p 0.8, temperature 0.5"
stream ordered 'b"".join(logits([3, 2, 1], position=p) for p in range(500))'
chosen() {
    sample "$@" ordered >out 2>err || fail "sample $*: $(brief err)"
    shown out | sed 's/.*ids=//' | sort -u | tr '\n' ' '
}
[ "$(chosen --temp 0.5 --top-p 0.8)" = '0 ' ] || fail "by default kept $(chosen --temp 0.5 --top-p 0.8)"
[ "$(chosen --temp 0.5 --top-p 0.8 --order temperature,top-p)" = '0 ' ] || fail "temperature first"
[ "$(chosen --temp 0.5 --top-p 0.8 --order top-p,temperature)" = '0 1 ' ] || fail "temperature last"
[ "$(chosen --temp 0.5 --order temperature,top-n-sigma,top-k,typical,top-p,min-p,xtc)" = '0 1 2 ' ] || fail "all names"
begin "--order is shown by -v, and refuses what it does not know"
expect_status 0 sample -v --temp 0.5 --top-p 0.8 --min-p 0.1 --order min-p,top-p,temperature ordered
grep -q '^sample: seed 0, min-p 0.1, top-p 0.8, temperature 0.5$' err || fail "said $(brief err)"
expect_status 2 sample --order top-p,top-q ordered
expect_error "^sample: --order: expected names of temperature,top-n-sigma,top-k,typical,top-p,min-p,xtc, found 'top-q'"
expect_status 2 sample --order top-p,top-p ordered
expect_error '^sample: --order: top-p comes twice'
expect_status 2 sample --order top-p --min-p 0.1 ordered
expect_error '^sample: --order: min-p is asked for, but the order leaves it out'
begin "mirostat is refused, and the reason given"
expect_status 2 sample --mirostat 2 ordered
expect_error '^sample: --mirostat: not there: .* would not be a function of the stream'
begin "one seed, one text; another seed, another text; in one process or in many"
draws --temp 1 -s 7 >/dev/null
cp out a
draws --temp 1 --seed 7 >/dev/null
expect_same out a
draws --temp 1 -s 8 >/dev/null
cmp -s out a && fail "seeds 7 and 8 draw the same"
stream one 'logits([0] * 50, position=20, sequence=3)'
stream both 'logits([0] * 50, position=20, sequence=4)' 'logits([0] * 50, position=20, sequence=3)'
sample --temp 1 one | shown /dev/stdin >a
sample --temp 1 both | shown /dev/stdin | grep sequence=3 >b
expect_same a b
begin "the draws are those of the definition"
python3 -S - >want <<'END'
# Philox 4x32-10, key: seed; counter: position, draw stream, 0, 0
def philox(key, counter):
    k, c = list(key), list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c
seed = 0x123456789ABCDEF0
for position in range(1, 11):
    w = philox((seed % 2**32, seed >> 32), (position, 0, 0, 0))
    print(int((w[1] << 32 | w[0]) / 2**64 * 1000))
END
stream uniform 'b"".join(logits([0] * 1000, position=p) for p in range(10))'
sample --temp 1 -s 0x123456789abcdef0 uniform | shown /dev/stdin | sed 's/.*ids=//' >got
expect_same want got
begin "FORK gives another draw stream"
stream fork 'tokens([1])' 'fork(0, 1, stream=5, sequence=1)' 'logits([0] * 1000)' 'logits([0] * 1000, sequence=1)'
sample --temp 1 fork >out
[ "$(shown out | sed 's/.*ids=//' | sort -u | wc -l)" = 2 ] || fail "drew $(shown out)"
begin "--seed random draws anew and tells the seed"
expect_status 0 sample --temp 1 --seed random uniform
expect_error '^sample: seed [0-9]+$'
seed=$(sed 's/.*seed //' err)
cp out a
expect_status 0 sample --temp 1 --seed "$seed" uniform
expect_no_error
expect_same out a
begin "-v tells seed and chain, and changes nothing else"
expect_status 0 sample -v --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 -s "$seed" uniform
cp out b
grep -q "^sample: seed $seed, temperature 0.8, top-k 40, top-p 0.95, min-p 0.05$" err || fail "said $(brief err)"
expect_status 0 sample --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 -s "$seed" uniform
expect_same out b

# ---- log-probabilities ----

begin "--logprobs: before each token its log-probability, raw and processed, and the best of both"
stream asked 'logits([3, 2, 1], position=7)'
expect_status 0 sample --logprobs 2 asked
expect_records 'LOGPROBS sequence=0 position=8 id=0 raw=-0.407606 0:-0.407606,1:-1.407606 processed=0.000000 0:0.000000|TOKENS GENERATED sequence=0 position=8 ids=0'
expect_status 0 sample --logprobs 5 --temp 0.5 --top-k 2 asked
expect_records 'LOGPROBS sequence=0 position=8 id=0 raw=-0.407606 0:-0.407606,1:-1.407606,2:-2.407606 processed=-0.126928 0:-0.126928,1:-2.126928|TOKENS GENERATED sequence=0 position=8 ids=0'
expect_status 0 sample --logprobs 0 --temp 1 asked
expect_records 'LOGPROBS sequence=0 position=8 id=0 raw=-0.407606 - processed=-0.407606 -|TOKENS GENERATED sequence=0 position=8 ids=0'
begin "--logprobs changes no choice"
sample --temp 1 uniform >a
sample --temp 1 --logprobs 3 uniform | shown /dev/stdin | grep -v LOGPROBS >b
shown a >want
expect_same b want
begin "after a filter the raw ones are the model's, or absent"
expect_status 0 sh -c "penalize --keep-raw --bias 0=-5 asked | penalize --keep-raw --bias 1=-1 | sample --logprobs 1"
expect_records 'LOGPROBS sequence=0 position=8 id=1 raw=-1.407606 0:-0.407606 processed=0.000000 1:0.000000|TOKENS GENERATED sequence=0 position=8 ids=1'
expect_status 0 sh -c "penalize --bias 0=-5 asked | penalize --keep-raw --bias 1=-1 | sample --logprobs 1"
expect_records 'LOGPROBS sequence=0 position=8 id=1 raw=none - processed=0.000000 1:0.000000|TOKENS GENERATED sequence=0 position=8 ids=1'
begin "RAW records that are of something else, or have another size"
stream other 'raw([9, 2, 1], position=6)' 'raw([9, 2, 1], position=7, sequence=1)' 'logits([3, 2, 1], position=7)'
expect_status 0 sample --logprobs 0 other
expect_records 'LOGPROBS sequence=0 position=8 id=0 raw=-0.407606 - processed=0.000000 -|TOKENS GENERATED sequence=0 position=8 ids=0'
stream other 'raw([9, 2], position=7)' 'logits([3, 2, 1], position=7)'
expect_status 1 sample --logprobs 0 other
expect_error '^sample: other: record 2 \(LOGITS\): 3 logits, but the RAW record before it has 2'
stream other 'record(RAW, b"12345678", position=7, count=3)' 'logits([3, 2, 1], position=7)'
expect_status 1 sample --logprobs 0 other
expect_error '^sample: other: record 1 \(RAW\): count 3 needs 12 bytes of payload, found 8'
expect_status 0 sample other
begin "RAW records that are no distribution"
for values in 'float("nan"), 2, 1' '*[-float("inf")] * 3'; do
    stream other "raw([$values], position=7)" 'logits([3, 2, 1], position=7)'
    expect_status 1 sample --logprobs 0 other
    expect_error '^sample: other: record 2 \(LOGITS\): the RAW record before it holds NaN, or nothing above -infinity'
done
begin "in the loop they reach the text's reader, and cost no pass"
mkfifo back
tokenize 'The capital of France is' | prefill >s0
{ if cat s0; then cat back; else : <back; fi; } | decode-step --stream | tee passed | sample --logprobs 1 -n 2 | tee back >chosen
[ "$(shown chosen | grep -c LOGPROBS)" = 2 ] || fail "chose $(shown chosen)"
[ "$(shown passed | grep -c LOGITS)" = 2 ] || fail "passed $(shown passed | cut -c 1-70)"
[ "$(shown passed | grep -c LOGPROBS)" = 2 ] || fail "passed $(shown passed | cut -c 1-70)"

begin "generate --json --logprobs: the numbers of the steps by hand, with the model's own where filters run"
expect_status 2 generate --logprobs 2 x
expect_error '^generate: --logprobs goes with --json'
options='--temp 0.9 -s 3 --logprobs 2'
generate --json $options -n 3 'The capital of France is' | head -3 >looped
cp s0 state
: >answers
for i in 1 2 3; do
    sample $options state >answer
    cat answer >>answers
    decode-step state answer >next && mv next state
done
detok --json answers | head -3 >by_hand
expect_same looped by_hand
generate --json --logprobs 1 --ban ' Paris' -n 1 'The capital of France is' >out
expect_match '"raw_logprob":-9\.[0-9]+,"raw_top":\[\{"id":1494,"text":" Paris"'

# ---- stop strings, with the texts of the small model ----

# ids TEXT: as a Python list.
ids() {
    printf '[%s]\n' "$(tokenize --append --ids -- "$1" | cut -f1 | paste -sd, -)"
}
# told TEXT [OPTION...]: the text that detok shows of what sample says about logits that want the tokens of
# TEXT one after another, each passed back as in the loop.
told() {
    wanted=$1
    shift
    python3 -S - "$(ids "$wanted")" >asked <<'END'
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
from stream import *
ids = eval(sys.argv[1])
out = [model(n_logits=2048, n_vocabulary=2048, eog=[2047], vocabulary=0), tokens([1, 2], flags=OPEN)]
for i, token in enumerate(ids):
    out += [logits({token: 9}, n=2048, position=1 + i, flags=OPEN), tokens([token], position=2 + i, flags=GENERATED | OPEN)]
sys.stdout.buffer.write(b"".join(out) + end("length"))
END
    sample -n "$(ids "$wanted" | tr ',' '\n' | wc -l)" "$@" asked >answers 2>err || fail "sample $*: $(brief err)"
    detok answers
}
ends() { # ends REASON TRIM
    shown answers | grep END | grep -q " $1$2" || fail "found $(shown answers | grep END)"
}
begin "--stop: text before the match is shown, text of the match is not"
[ "$(told 'One two three four five' --stop ' three')" = 'One two' ] || fail "found '$(cat out)'"
told 'One two three four five' --stop ' three' >out
expect_bytes 'One two'
ends stop ''
begin "--stop: a string over several tokens, beginning and ending inside of them"
for text in 'two three four' 'o three fo' 'ne two three four fiv' 'O'; do
    told 'One two three four five' --stop "$text" >out
    printf '%s' 'One two three four five' | awk -v t="$text" '{ printf "%s", substr($0, 1, index($0, t) - 1) }' >want
    cmp -s want out || fail "--stop '$text': found '$(brief out)', expected '$(brief want)'"
    ends stop ' trim='
done
begin "--stop: only a beginning appears, then something else"
told 'One two three four five' --stop 'two three five' --stop 'One three' >out
expect_bytes 'One two three four five'
shown answers | grep -q HELD || fail "nothing was held"
begin "--stop: a beginning at the very end is shown"
told 'One two three' --stop 'three four' >out
expect_bytes 'One two three'
ends length ''
begin "--stop: a beginning before EOS is shown"
three=$(ids ' three')
stream asked "model(n_logits=2048, n_vocabulary=2048, eog=[2047])" 'tokens([1])' "logits({$three[0]: 1}, n=2048)" \
    "tokens($three, position=1, flags=GENERATED)" "logits({2047: 1}, n=2048, position=1)"
sample --stop ' three four' asked >answers
[ "$(shown answers | grep -c HELD)" = 2 ] || fail "found $(shown answers)"
detok answers >out
expect_bytes ' three'
ends eos ''
begin "--stop: of two that overlap the one that ends first counts"
told 'One two three four five' --stop 'two three four' --stop 'wo thr' >out
expect_bytes 'One t'
begin "--stop: of two that end at one byte the longer counts"
told 'One two three four five' --stop ' three' --stop 'two three' >out
expect_bytes 'One '
begin "--stop: after FORK the text is that of the copy, or what is left"
two=$(ids ' two')
three_logits="logits({$three[0]: 1}, n=2048"
stream asked "tokens($(ids 'One'), flags=GENERATED)" "tokens($two, position=1, flags=GENERATED)" 'fork(0, 1, sequence=1)' \
    "$three_logits, position=1)" "$three_logits, position=0, sequence=1)" 'fork(0, 1)' "$three_logits, position=0)"
sample --stop ' two three' asked >answers
[ "$(shown answers | grep -c END)" = 1 ] || fail "found $(shown answers)"
stream asked "tokens($(ids 'One'), flags=GENERATED)" "tokens($two, position=1, flags=GENERATED)" 'fork(0, 1)' "$three_logits, position=0)"
sample --stop ' two three' asked >answers
[ "$(shown answers | grep -c END)" = 0 ] || fail "after a cut found $(shown answers)"
begin "--stop: only what was generated counts"
stream asked "tokens($(ids 'One'))" "tokens($two, position=1)" "$three_logits, position=1)"
sample --stop ' two three' asked >answers
[ "$(shown answers | grep -c END)" = 0 ] || fail "found $(shown answers)"
begin "--stop by hand, a process for each token, as in the loop"
if [ -x "$BIN/decode-step" ]; then
    tokenize 'The capital of France is' | prefill >state
    generate -n 8 'The capital of France is' >free
    stop=$(tail -c 4 free)
    : >answers
    for i in 1 2 3 4 5 6 7 8; do
        sample --stop "$stop" state >token || fail "sample"
        cat token >>answers
        shown token | grep END >ended && break
        decode-step state token >next && mv next state
    done
    detok answers >out
    generate -n 8 --stop "$stop" 'The capital of France is' >looped
    expect_same out looped
    cmp -s looped free && fail "nothing was cut"
fi
begin "--stop needs the vocabulary of the stream"
stream foreign 'logits({3: 1}, binding=5)'
expect_status 1 sample --stop x foreign
expect_error "^sample: foreign: record 1 \(LOGITS\): made with vocabulary 00000005, but that of '.*' is [0-9a-f]{8}"
expect_status 0 sample foreign
begin "-m names the vocabulary for --stop"
expect_status 1 sample --stop x -m "$prose" foreign
expect_error "that of '$prose' is"
expect_status 3 sample --stop x -m nothing.gguf foreign
expect_error 'nothing.gguf: cannot open'
# ---- several continuations ----------------------------------------------------------------------------
# by_hand N: COUNT continuations of the state ./start, a process for each step, into ./chosen.
by_hand() {
    cp start state
    : >chosen
    for i in $(seq "$1"); do
        sample $([ "$i" -gt 1 ] || echo -N 3) --temp 1.2 -s 5 state >token || fail "sample"
        cat token >>chosen
        decode-step state token >next && mv next state
    done
}
fifo_loop() {
    rm -f back
    mkfifo back
    { if prefill start; then cat back; else : <back; fi; } | decode-step --stream --save saved | sample "$@" | tee answers back
}
begin "-N: continuation 0 is what there is without it, and the others are others"
tokenize 'Once upon a time' | prefill >start
generate --temp 1.2 -s 5 -n 9 'Once upon a time' >one
fifo_loop -N 3 --temp 1.2 -s 5 -n 9 | detok -0 >three
head -z -n 1 three | tr -d '\0' | cmp -s - one || fail "$(brief three)"
[ "$(tr '\0' '\n' <three | sort -u | wc -l)" -eq 3 ] || fail "not three different texts: $(brief three)"
begin "-N: copies have the lowest free numbers and draw streams of their own"
shown answers | grep FORK >forks
printf 'FORK OPEN sequence=1 position=4\nFORK OPEN sequence=2 position=4\n' | cmp -s - forks || fail "$(brief forks)"
begin "-N by hand, a process for each token, as in the loop: a state keeps the draw streams"
by_hand 9
detok -0 chosen >out
expect_same out three
expect_same saved state
prefill saved >again
expect_same saved again
[ "$(peek saved | grep -c FORK)" -eq 2 ] || fail "$(peek saved | grep FORK)"
begin "-N: generate gives the same texts, apart by newlines or ended by NULs, and with the prompt"
generate -N 3 --temp 1.2 -s 5 -n 9 -0 'Once upon a time' >out
expect_same out three
generate -N 3 --temp 1.2 -s 5 -n 9 'Once upon a time' >out
tr '\0' '\n' <three | head -c -1 | cmp -s - out || fail "$(brief out)"
generate -N 3 --temp 1.2 -s 5 -n 9 -0 --echo 'Once upon a time' >out
sed -z 's/^/Once upon a time/' three | cmp -s - out || fail "$(brief out)"
begin "-N: a line of a batch gets what it gets alone"
printf 'The moon\nOnce upon a time\nA cat' >list
generate --lines -f list -N 3 --temp 1.2 -s 5 -n 9 -0 >out
[ "$(tr -dc '\0' <out | wc -c)" -eq 9 ] || fail "$(brief out)"
tail -z -n +4 out | head -z -n 3 | cmp -s - three || fail "$(brief out)"
begin "-N: continuations that end with their first token, all or some"
generate -N 4 --temp 1.2 -n 1 -0 'Once upon a time' >out
[ "$(tr -dc '\0' <out | wc -c)" -eq 4 ] || fail "$(brief out)"
stream ends 'model(eog=[1], n_context=50)' 'tokens([3])' 'logits({1: 1, 2: 1}, fill=-1e9)'
expect_status 0 sample -N 8 --temp 1 -v ends
shown out >got
[ "$(grep -c '^TOKENS' got)" -eq 8 ] && [ "$(grep -c '^FORK' got)" -eq 7 ] || fail "$(brief got)"
n=$(grep -c 'ids=1$' got)
[ "$n" -gt 0 ] && [ "$n" -lt 8 ] && [ "$(grep -c '^END.* eos token=1' got)" -eq "$n" ] || fail "$(brief got)"
[ "$(grep -c 'end (eos)' err)" -eq "$n" ] || fail "$(brief err)"
begin "-N: what ends before a token is not copied"
expect_status 0 sample -N 3 --temp 1 -n 0 start
shown out >got
[ "$(cat got)" = 'END sequence=0 position=4 length' ] || fail "$(brief got)"
begin "-N again, of copies: no two have one draw stream"
sample -N 3 --temp 1.2 start >token
decode-step start token >state
sample -N 3 --temp 1.2 state >token
cat state token >both
python3 -S - both <<'EOF' || fail "two sequences draw from one stream"
import struct, sys
data, at, seen = open(sys.argv[1], "rb").read(), 0, {}
while at < len(data):
    sequence, length = struct.unpack_from("<I12xQ", data, at + 8)
    seen.setdefault(sequence, 0)
    if data[at + 4] == 5:
        seen[sequence] = struct.unpack_from("<I", data, at + 68)[0]
    at += 64 + length + -length % 64
sys.exit(len(seen) != 9 or len(set(seen.values())) != 9)
EOF
begin "-N: stop strings are looked for in each"
generate -N 5 --temp 1.2 -n 30 -0 'Once upon a time' >free
stop=$(tr '\0' '\n' <free | sed -n 3p | cut -c 5-14)
generate -N 5 --temp 1.2 -n 30 -0 --stop "$stop" 'Once upon a time' >out
tr '\0' '\n' <free | awk -v stop="$stop" '{ at = index($0, stop); print at ? substr($0, 1, at - 1) : $0 }' >want
tr '\0' '\n' <out | cmp -s - want || fail "$(brief out), expected $(brief want)"
tr '\0' '\n' <free | cmp -s - want && fail "nothing was cut"
begin "-N without a temperature: an error that says why"
expect_status 2 sample -N 2 start
expect_error '^sample: -N 2 needs --temp: at temperature 0 nothing is drawn, and all continuations would be the same'
expect_status 2 generate -N 2 x
expect_error '^generate: -N 2 needs --temp'
expect_status 2 generate -N 2 --temp 1 --trace x
expect_error '^generate: --trace follows one sequence'

begin "no logits and no END: an error, since nothing would come of it"
stream told 'tokens([1, 2])'
expect_status 1 sample told
expect_error '^sample: told: no logits in the input'
stream over 'tokens([1, 2])' 'end("length", position=2)'
expect_status 0 sample over
begin "wrong options"
expect_status 2 sample -o '' good
expect_error '^sample: --output: expected the name of a file to write, found an empty one'
expect_status 2 sample --stop '' good
expect_error '^sample: --stop: expected a text, found an empty one'
expect_status 2 sample --temp -1 good
expect_error '^sample: --temp: expected a number from 0 to'
expect_status 2 sample --top-p 1.1 good
expect_error '^sample: --top-p: expected a number from 0 to 1'
expect_status 2 sample -n x good
expect_error '^sample: --predict: expected a whole number'
expect_status 2 sample --seed -1 good
expect_error '^sample: --seed: expected a number'
begin "records are not written to a terminal, unless --force says so"
expect_status 2 on_terminal "'$BIN/sample' good"
expect_match 'is a terminal and the output is binary'
expect_status 0 on_terminal "'$BIN/sample' --force good"
expect_match 'UNR1'

finish
