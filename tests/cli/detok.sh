# detok: text as it comes, what is held, trimmed or dropped, and several sequences.
. "$TOP/tests/cli/lib.sh"
stories=$UNROLL_TEST_DATA/stories/stories260K.gguf

check_help detok
tokenize 'The capital of France is Paris.' >good
check_input detok good
check_output detok good

# ids TEXT: as a Python list.
ids() {
    printf '[%s]' "$(tokenize --append --ids -- "$1" | cut -f1 | paste -sd, -)"
}
one=$(ids 'One') two=$(ids ' two') three=$(ids ' three') four=$(ids ' four')

begin "text, from files and from a pipe"
expect_status 0 detok good
expect_bytes 'The capital of France is Paris.'
expect_status_from good 0 sh -c 'cat | detok'
expect_bytes 'The capital of France is Paris.'
tokenize --append ' It is' >more
expect_status 0 detok good more
expect_bytes 'The capital of France is Paris. It is'
expect_status_from more 0 detok good -
expect_bytes 'The capital of France is Paris. It is'
begin "-o FILE"
expect_status 0 detok -o text good
cp text out
expect_bytes 'The capital of France is Paris.'
begin "a state is text too"
stream state 'model(n_logits=2048, n_vocabulary=2048, vocabulary=0)' 'cache(1)' "tokens($one)" 'logits({}, n=2048)' "tokens($two, position=1)" 'record(200, b"ignored")'
expect_status 0 detok state
expect_bytes 'One two'
begin "tokens that are known already are not printed again"
stream again "tokens($one+$two)" "tokens($two+$three, position=1)"
expect_status 0 detok again
expect_bytes 'One two three'
begin "no tokens, no text"
stream none 'tokens([])'
expect_status 0 detok none
expect_bytes ''
stream none 'logits([1])'
expect_status 0 detok none
expect_bytes ''
begin "ids without text print nothing"
stream beyond "tokens($one+[99999999]+$two)"
expect_status 0 detok beyond
expect_bytes 'One two'
begin "control tokens print nothing, with --special their texts"
tokenize --special --ids '<|endoftext|></s><|end|>' >list
end=$(awk -F'\t' '$3 == "control" { print $1; exit }' list)
name=$(awk -F'\t' '$3 == "control" { print $2; exit }' list)
if [ -n "$end" ]; then
    stream control "tokens($one+[$end])"
    expect_status 0 detok control
    expect_bytes 'One'
    expect_status 0 detok --special control
    expect_bytes "One$name"
else
    fail "the small model has no control token"
fi

begin "each token at once, but a character only when it is complete"
printf '\360\237\230\200!' >smile # four bytes, as tokens of their own
stream pieces "tokens($(tokenize --append --ids -f smile | cut -f1 | paste -sd, - | sed 's/.*/[&]/'))"
[ "$(tokenize --count -f smile)" -ge 3 ] || fail "the character is one token"
mkfifo slow
detok <slow >out &
exec 3>slow
python3 -S - "$one" "$(tokenize --append --ids -f smile | cut -f1 | paste -sd, - | sed 's/.*/[&]/')" <<'END'
import os, sys
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
sys.dont_write_bytecode = True
from stream import *
one, smile = map(eval, sys.argv[1:])
open("a", "wb").write(tokens(one))
open("b", "wb").write(tokens(smile[:2], position=1))
open("c", "wb").write(tokens(smile[2:], position=3))
END
seen() { # seen 'bytes': within half a minute
    printf '%b' "$1" >want
    n=0
    while ! cmp -s want out && [ $n -lt 150 ]; do sleep 0.2; n=$((n + 1)); done
    cmp -s want out || fail "found '$(brief out)', expected '$(brief want)'"
}
cat a >&3
seen One
cat b >&3
sleep 0.2
seen One
cat c >&3
seen 'One\360\237\230\200!'
exec 3>&-
wait
rm slow
begin "--raw does not wait"
cat a b >ab
mkfifo slow
detok --raw <slow >out &
exec 3>slow
cat ab >&3
printf 'One\360\237\230\200' | head -c "$(detok ab | wc -c)" >expected
n=0
while ! cmp -s expected out && [ $n -lt 150 ]; do sleep 0.2; n=$((n + 1)); done
expect_same expected out
exec 3>&-
wait
begin "half a character at the end is written as it is"
expect_status 0 detok ab
expect_same expected out

begin "HELD tokens wait; a later one without the flag releases them"
stream held "tokens($one)" "tokens($two, position=1, flags=HELD)"
mkfifo waiting
detok <waiting >out &
exec 3>waiting
cat held >&3
sleep 0.3
seen One
stream free "tokens($three, position=2)"
cat free >&3
seen 'One two three'
exec 3>&-
wait
begin "HELD tokens are shown at the end of the input"
expect_status 0 detok held
expect_bytes 'One two'
for reason in eos length context; do
    begin "END ($reason) releases what was held"
    stream ended "tokens($one)" "tokens($two, position=1, flags=HELD|OPEN)" "end('$reason', position=2)"
    expect_status 0 detok ended
    expect_bytes 'One two'
done
begin "END (stop) trims"
stream ended "tokens($one)" "tokens($two+$three, position=1, flags=HELD|OPEN)" 'end("stop", trim=8, text=b"wo thr")'
expect_status 0 detok ended
expect_bytes 'One t'
begin "END trims what is still waiting: a stop string may have begun in a text shown before"
stream ended "tokens($one)" 'end("stop", trim=1)'
expect_status 0 detok ended
expect_bytes 'One'

begin "several sequences: each whole, in order of appearance, a newline between"
stream mixed "tokens($one, sequence=5)" "tokens($two, sequence=3)" "tokens($two, position=1, sequence=5)" \
    "tokens($three, position=1, sequence=3)" 'end("eos", sequence=3)' "tokens($four, position=2, sequence=5)" 'end("eos", sequence=5)'
expect_status 0 detok mixed
expect_bytes 'One two four\n two three'
begin "--sequence: one of them"
expect_status 0 detok --sequence 3 mixed
expect_bytes ' two three'
expect_status 0 detok --sequence 5 mixed
expect_bytes 'One two four'
expect_status 1 detok --sequence 4 mixed
expect_error '^detok: mixed: no sequence 4'
begin "the first that is not finished streams, the others wait for it"
stream early "tokens($one, sequence=0)" "tokens($two, sequence=1)" 'end("eos", sequence=0)' "tokens($three, position=1, sequence=1)"
mkfifo many
detok <many >out &
exec 3>many
cat early >&3
seen 'One\n two three'
exec 3>&-
wait
begin "an empty text keeps its line"
stream empty "tokens($one, sequence=0)" 'tokens([], sequence=1)' "tokens($two, sequence=2)"
expect_status 0 detok empty
expect_bytes 'One\n\n two'
begin "a dropped sequence is not printed"
stream dropped "tokens($one, sequence=0)" "tokens($two, sequence=1, flags=HELD)" "tokens($three, sequence=2)" 'end("dropped", sequence=1)'
expect_status 0 detok dropped
expect_bytes 'One\n three'
stream dropped "tokens($one, flags=HELD)" 'fork(0, 1, sequence=1)' "tokens($two, position=1, sequence=1, flags=HELD)" \
    'end("dropped")' 'end("eos", sequence=1)'
expect_status 0 detok dropped
expect_bytes 'One two'
begin "a sequence that is cut back"
stream cut "tokens($one)" "tokens($two+$three, position=1, flags=HELD)" 'fork(0, 2)' "tokens($four, position=2)"
expect_status 0 detok cut
expect_bytes 'One two four'
stream cut "tokens($one+$two)" 'fork(0, 1)'
expect_status 1 detok cut
expect_error 'cut: record 2 \(FORK\): 4 bytes are to be taken back that were shown already'

begin "a number that comes back after it was dropped is another text"
stream reused "tokens($one, sequence=0, flags=HELD)" 'fork(0, 1, sequence=5)' "tokens($two, position=1, sequence=5, flags=HELD)" \
    'end("dropped", sequence=5)' 'fork(0, 1, sequence=5)' "tokens($four, position=1, sequence=5, flags=HELD)" 'end("eos")' 'end("eos", sequence=5)'
expect_status 0 detok reused
expect_bytes 'One\nOne four'
begin "copies are shown after what they are copies of"
stream family "tokens($one, sequence=0)" "tokens($two, sequence=1)" "tokens($three, sequence=2)" 'fork(1, 1, sequence=3)' \
    'fork(0, 1, sequence=4)' 'fork(1, 0, sequence=5)' "tokens($four, position=1, sequence=4)" "tokens($four, position=0, sequence=5)" \
    "tokens($one, position=1, sequence=3)"
expect_status 0 detok family
expect_bytes 'One\nOne four\n two\n twoOne\n four\n three'
begin "--null: each text is ended by a NUL"
expect_status 0 detok -0 family
expect_bytes 'One\0000One four\0000 two\0000 twoOne\0000 four\0000 three\0000'
expect_status 0 detok -0 empty
expect_bytes 'One\0000\0000 two\0000'
expect_status 0 detok --null --sequence 4 family
expect_bytes 'One four\0000'
begin "another vocabulary"
stream foreign 'tokens([1], binding=5)'
expect_status 1 detok foreign
expect_error "^detok: foreign: record 1 \(TOKENS\): made with vocabulary 00000005, but that of '.*' is [0-9a-f]{8}"
stream foreign 'model(vocabulary=5, name="other")' 'tokens([1])'
expect_status 1 detok foreign
expect_error "vocabulary 00000005 \(model 'other'\), but that of"
begin "input that ends while a sequence is open"
stream open "tokens($one, flags=OPEN)"
expect_status 1 detok open
expect_error '^detok: open: cut off: the input ended while sequence 0 was open'
expect_bytes 'One'

# ---- --json ----

# json CODE: runs Python on the list `o` of the objects in ./out; false ends with the assertion's text.
json() {
    python3 -S - "$1" <<'END' 2>trouble || fail "$(tail -1 trouble): $(brief out)"
import json, sys
o = [json.loads(line) for line in open("out", "rb")]
def exact(x):
    return bytes(x["bytes"]) if "bytes" in x else x["text"].encode()
exec(sys.argv[1])
END
}
begin "--json: an object for each token, and for the end of the text"
stream ended "tokens($one)" "tokens($two, position=1, flags=GENERATED)" "tokens($three, position=2, flags=GENERATED | HELD)" 'end("stop", position=3, trim=4, text=b"re")'
expect_status 0 detok --json ended
json 'assert [x.get("text") for x in o] == ["One", " two", " three", "One two t"]'
json 'assert [x["position"] for x in o[:3]] == [0, 1, 2] and [x["generated"] for x in o[:3]] == [False, True, True]'
json 'assert "held" not in o[1] and o[2]["held"] is True and o[3]["end"] == "stop" and o[3]["matched"] == "re"'
expect_status 0 detok ended
expect_bytes 'One two t'
begin "--json: a text that does not end, several sequences, FORK, dropped"
stream two "tokens($one)" "tokens($two, sequence=7)" 'fork(0, 1, sequence=2)' "tokens($four, position=1, sequence=2)" 'end("dropped")' 'end("eos", token=5, sequence=7)'
expect_status 0 detok --json two
json 'assert o[2] == {"sequence": 2, "fork": 0, "position": 1}'
json 'assert o[4] == {"sequence": 0, "end": "dropped"} and o[5] == {"sequence": 7, "end": "eos", "id": 5, "text": " two"}'
json 'assert o[6] == {"sequence": 2, "end": None, "text": "One four"}'
expect_status 0 detok --json --sequence 7 two
json 'assert len(o) == 2 and o[1]["text"] == " two"'
begin "--json: every byte survives, though it is not UTF-8 and tokens cut characters"
python3 -S -c 'import os; open("noise", "wb").write(bytes(range(256)) + "ä€😀\u2028".encode() + b"\xf0\x9f\n\"\\")'
tokenize -f noise >noise.tokens
expect_status 0 detok --json noise.tokens
json 'assert b"".join(exact(x) for x in o[:-1]) == open("noise", "rb").read() == exact(o[-1])'
json 'assert any("bytes" in x for x in o[:-1]) and "bytes" in o[-1] and "\ufffd" in o[-1]["text"]'
printf 'a\0b' | tokenize - | detok --json >out
json 'assert o[-1]["text"] == "a\0b" and "bytes" not in o[-1]'
begin "--json: log-probabilities are exact, raw ones absent where a filter ran"
stream told "tokens($one)" 'logprobs(5, -0.1, -1/3, [(5, -0.1), (6, -2.5)], [(5, -1/3)], position=1)' 'tokens([5], position=1, flags=GENERATED)' \
    'logprobs(6, None, 0, (), [(6, 0)], position=2)' 'tokens([6], position=2, flags=GENERATED)' 'logprobs(7, -1, -1, position=9)' 'tokens([8], position=3)'
expect_status 0 detok --json told
json 'assert o[1]["raw_logprob"] == -0.1 and o[1]["processed_logprob"] == -1/3'
json 'assert [(x["id"], x["logprob"]) for x in o[1]["raw_top"]] == [(5, -0.1), (6, -2.5)] and [x["id"] for x in o[1]["processed_top"]] == [5]'
json 'assert "raw_logprob" not in o[2] and "raw_top" not in o[2] and o[2]["processed_logprob"] == 0'
json 'assert "processed_logprob" not in o[0] and "processed_logprob" not in o[3]'
expect_status 0 detok told
begin "--json: each object is written when its token has come"
mkfifo late
{ cat told; hold_until got; } >late &
detok --json late | { head -2 >out; : >got; }
wait
[ ! -e gave-up ] || fail "nothing came before the input ended"
json 'assert len(o) == 2'
begin "--json: damaged log-probabilities"
stream bad "tokens($one)" 'record(LOGPROBS, bytes(31))'
expect_status 1 detok --json bad
expect_error '^detok: bad: record 2 \(LOGPROBS\): LOGPROBS of 31 bytes, expected at least 32'

if [ -r "$stories" ]; then
    begin "the prefix space goes where a text begins, and only there"
    export UNROLL_MODEL="$stories"
    tokenize 'Once upon' >text
    expect_status 0 detok text
    expect_bytes 'Once upon'
    tokenize ' Once' | detok >out
    expect_bytes ' Once'
    tokenize --append ' Once' | detok >out
    expect_bytes ' Once'
    stream later "tokens($(ids ' upon a'), position=7, flags=GENERATED)"
    expect_status 0 detok later
    expect_bytes ' upon a'
    stream zero "tokens($(ids ' upon a'))" # a text without BOS
    expect_status 0 detok zero
    expect_bytes 'upon a'
    expect_status 0 detok --special text
    expect_bytes '<s>Once upon'
    begin "--json: the prefix space goes, too"
    expect_status 0 detok --json text
    json 'assert o[-1]["text"] == "Once upon" and o[1]["text"] == "Once"'
    begin "-m names the model"
    unset UNROLL_MODEL
    expect_status 0 detok -m "$stories" text
    expect_bytes 'Once upon'
    expect_status 1 detok text
else
    skip "SentencePiece" "there is no $stories"
fi

finish
