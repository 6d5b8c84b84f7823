# beam: what it finds, beside a second search and beside all texts there are; what it writes; and what it refuses.
. "$TOP/tests/cli/lib.sh"
MAKE=$BIN/../tests/make-model
ids() { tokenize --append --ids "$1" | cut -f 1 | paste -sd,; }
eog=$(tokenize --append --special --ids '<|endoftext|>' | cut -f 1)

check_help beam
stream good 'model(n_context=8, eog=[4])' 'tokens([1, 2], flags=OPEN)' 'logits({3: 1.5}, position=1, flags=OPEN)' 'end("dropped")'
check_input beam good
beam_one() { beam --beam-width 1 "$@"; }
stream one 'tokens([1, 2])' 'logits({3: 1.5}, position=1)'
check_output beam --beam-width 1 one

# loop WHERE OPTION...: the FIFO loop with beam on the state ./state; what beam wrote is left in ./answers, the state in ./saved.
loop() {
    rm -f back answers saved
    mkfifo back
    { if prefill state; then cat back; else : <back; fi; } |
        decode-step --stream --save saved | beam "$@" | tee answers back | detok -0 >out
}
# What beam found: for each sequence with a SCORE its score and ids, the best first.
found() {
    python3 -S - "$1" <<'EOF'
import struct, sys
data, at, texts, scores = open(sys.argv[1], "rb").read(), 0, {}, []
while at < len(data):
    kind, sequence, position, count, length = data[at + 4], *struct.unpack_from("<3I4xQ", data, at + 8)
    payload = data[at + 64:at + 64 + length]
    if kind == 2:
        text = texts.setdefault(sequence, {})
        text.update((position + i, id) for i, id in enumerate(struct.unpack(f"<{count}I", payload)))
    elif kind == 5:
        source = texts[struct.unpack("<II", payload)[0]]
        texts[sequence] = {p: id for p, id in source.items() if p < position}
    elif kind == 130:
        scores.append((sequence, *struct.unpack("<ddI", payload)))
    at += 64 + length + -length % 64
for sequence, score, total, n in sorted(scores):
    assert len(texts[sequence]) == n, (sequence, n, texts[sequence])
    print(f"{score:.9f}", ",".join(str(texts[sequence][p]) for p in sorted(texts[sequence])))
EOF
}
# Scores may differ in the last digit that is shown.
same_hypotheses() {
    awk 'NR == FNR { score[NR] = $1; ids[NR] = $2; n = NR; next }
        { d = score[FNR] - $1; if (ids[FNR] != $2 || d > 1e-8 || d < -1e-8) exit 1 }
        END { if (FNR != n || n == 0) exit 1 }' "$1" "$2" || fail "found '$(brief "$1")', expected '$(brief "$2")'"
}

# ---- a width of 1 --------------------------------------------------------------------------------------
begin "with a width of 1 it is greedy, bit for bit: text and state, in the loop and in generate"
for prompt in 'The capital of France is' 'Once upon a time' 'There was a small cat'; do
    for options in '' '-n 7' '--stop cat' '--ignore-eos -n 90'; do
        generate $options --save greedy.state "$prompt" >greedy
        for more in '' '--early-stopping never --length-penalty 2'; do
            generate --beam-width 1 $more $options --save beam.state "$prompt" >text
            expect_same text greedy
            expect_same beam.state greedy.state
        done
        tokenize "$prompt" | prefill >state
        loop --beam-width 1 $options
        printf '\0' | cat greedy - | cmp -s - out || fail "the loop found '$(brief out)'"
        expect_same saved greedy.state
    done
done
generate -c 12 --save greedy.state "$prompt" >greedy
generate -c 12 --save beam.state --beam-width 1 "$prompt" >text
expect_same text greedy
expect_same beam.state greedy.state
begin "with a width of 1 also by hand; wider, a state cannot hold the scores, and it says so"
tokenize "$prompt" | prefill >state
sample state >token
expect_status 0 beam --beam-width 1 state
shown out >got
shown token | sed 's/^TOKENS/TOKENS HELD/' >want
cmp -s got want || fail "found $(brief got)"
expect_status 1 beam state
expect_error '^beam: state: record 4 \(LOGITS\): the logits of sequence 0 are not OPEN: beam search needs the loop'

# ---- beside a second search --------------------------------------------------------------------------
check_search() { # STOPPING PENALTY WIDTH N LIMIT
    tokenize "$prompt" | prefill >state
    python3 -S "$TOP/tests/cli/beam.py" "$(tokenize --ids "$prompt" | cut -f 1 | paste -sd,)" "$3" "$4" "$5" "$2" "$1" - "$eog" >want ||
        fail "beam.py failed"
    loop --beam-width "$3" -N "$4" -n "$5" --length-penalty="$2" --early-stopping "$1"
    found answers >got
    same_hypotheses got want
}
for prompt in 'The capital of France is' 'Once upon a time' 'There was a'; do
    begin "what a second search finds, from '$prompt'"
    check_search auto 1 4 4 12
    check_search always 0 3 2 12
    check_search never 0.6 2 1 9
    check_search auto -1 5 3 6
    check_search never 2 3 3 10
done
begin "the same in generate, with the texts in the order of their scores"
prompt='Once upon a time'
tokenize "$prompt" | prefill >state
loop --beam-width 4 -N 3 -n 12
generate --beam-width 4 -N 3 -n 12 -0 "$prompt" >text
expect_same text out
found answers | cut -d ' ' -f 2 | while read -r line; do
    stream text.records "tokens([$line], position=4, flags=GENERATED)"
    detok -0 text.records
done >text
expect_same text out
begin "scores: -v tells them, the best first"
expect_status 0 generate --beam-width 4 -N 2 -n 12 -v "$prompt"
grep -Eq '^beam: sequence 0: hypothesis 1: score -0\.[0-9]{6}, sum -[0-9]+\.[0-9]{6}, 12 tokens, end \(length\)$' err || fail "said $(brief err)"
grep -Eq '^generate: 2 sequences: 4 prompt tokens, [0-9]+ selected by all beams, finish reason: length 2$' err || fail "said $(brief err)"
[ "$(grep -c hypothesis err)" -eq 2 ] || fail "said $(brief err)"
begin "scores: --json has them beside the texts"
generate --beam-width 4 -N 2 -n 12 --json "$prompt" >lines
python3 -S - lines <<'EOF' >got || fail "not as expected: $(brief lines)"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
ends = {x["sequence"]: x for x in lines if x.get("end") not in (None, "dropped")}
assert sorted(ends) == [0, 1] and all(x["end"] == "length" and abs(x["sum"] / 12 - x["score"]) < 1e-12 for x in ends.values()), ends
assert ends[0]["score"] >= ends[1]["score"] and not any("text" in x for x in lines if x.get("end") == "dropped")
print(ends[0]["text"], ends[1]["text"], sep="\0", end="\0")
EOF
generate --beam-width 4 -N 2 -n 12 -0 "$prompt" >text
cmp -s text got || fail "$(brief got)"
begin "the score is that of the tokens, summed up"
found answers >got
awk '{ n = split($2, ids, ","); if (n != 12) exit 1 }' got || fail "$(brief got)"
sort -k 1,1gr got | cmp -s - got || fail "order: $(brief got)"
peek answers >shown
grep -q 'SCORE, sequence 0' shown || fail "peek shows $(grep 130 shown)"

# ---- beside all texts there are --------------------------------------------------------------------
begin "wide enough, it finds the best of all texts: five tokens allowed, all texts up to five"
all="$(ids ' a'),$(ids ' the'),$(ids ' was'),$(ids '.'),$eog"
tokenize "$prompt" | prefill >state
for penalty in 0 1 0.5; do
    python3 -S "$TOP/tests/cli/beam.py" --all "$(tokenize --ids "$prompt" | cut -f 1 | paste -sd,)" 2000 20 5 $penalty never "$all" "$eog" >want
    rm -f back && mkfifo back
    { prefill state; cat back; } | decode-step --stream | penalize --allow "$all" |
        beam --beam-width 2000 -N 20 -n 5 --length-penalty $penalty --early-stopping never | tee answers >back
    found answers >got
    same_hypotheses got want
done
begin "wider than the vocabulary"
"$MAKE" --vocabulary 300 --context 64 tiny.gguf
UNROLL_MODEL=$PWD/tiny.gguf
export UNROLL_MODEL
tokenize ab | prefill >state
loop --beam-width 4096 -N 10 -n 2
found answers >got
python3 -S "$TOP/tests/cli/beam.py" --all "$(tokenize --ids ab | cut -f 1 | paste -sd,)" 4096 10 2 1 auto - "$(peek state | sed -n 's/^  EOG.*: //p')" >want
[ -s want ] || fail "nothing to compare with"
same_hypotheses got want
unset UNROLL_MODEL

# ---- what it writes ----------------------------------------------------------------------------------
begin "only the best are left in a saved state, as a fresh run would have them"
tokenize "$prompt" | prefill >state
loop --beam-width 4 -N 2 -n 12
[ "$(peek saved | grep -c LOGITS)" -eq 2 ] || fail "$(peek saved | grep -c LOGITS) sequences"
detok -0 --sequence 0 saved >one
{ printf %s "$prompt"; head -z -n 1 out; } | cmp -s - one || fail "sequence 0 is '$(brief one)'"
tokenize -p "$(tr -d '\0' <one)" | prefill >fresh
peek --top 3 fresh | sed -n '/LOGITS/,$p' | grep -v record >want
peek --top 3 saved | sed -n '/LOGITS, sequence 0/,/record/p' | grep -v record >got
head -3 want | cmp -s - got || fail "logits: $(brief got), expected $(brief want)"
begin "every token is HELD, every other sequence ends dropped"
shown answers >got
grep '^TOKENS' got | grep -v HELD && fail "not held"
[ "$(grep -c 'END.* dropped' got)" -ge 3 ] || fail "$(grep END got)"
grep 'END' got | grep -v dropped >ends
[ "$(cut -d ' ' -f 2 ends | sort | paste -sd ' ')" = 'sequence=0 sequence=1' ] || fail "$(brief ends)"
begin "stop strings, EOS, -n 0, a context that is full"
expect_status 0 generate --beam-width 3 -v 'The capital of France is'
expect_bytes ' Paris.'
grep -q 'end (eos)' err || fail "$(brief err)"
expect_status 0 generate --beam-width 3 -v --stop aris 'The capital of France is'
expect_bytes ' P'
grep -q 'end (stop)' err || fail "$(brief err)"
expect_status 0 generate --beam-width 3 --stop 'Lily' --stop ' was' -N 3 --early-stopping always -0 "$prompt"
tr '\0' '\n' <out >lines
grep -q -e Lily -e ' was' lines && fail "a stop string is shown: $(brief lines)"
[ "$(wc -l <lines)" -eq 3 ] || fail "$(brief lines)"
expect_status 0 generate --beam-width 3 -n 0 "$prompt"
expect_bytes ''
expect_status 0 generate --beam-width 3 -c 4 -v "$prompt"
expect_bytes ''
grep -q 'end (context) before a token' err || fail "$(brief err)"
expect_status 0 generate --beam-width 3 -c 6 -v "$prompt"
grep -q '2 tokens, end (context)' err || fail "$(brief err)"
expect_status 0 generate --beam-width 3 -N 3 -n 1 "$prompt"
[ "$(wc -l <out)" -eq 2 ] || fail "$(brief out)"
begin "--ignore-eos: no text ends"
expect_status 0 generate --beam-width 3 --ignore-eos -n 9 -v 'The capital of France is'
grep -q '9 tokens, end (length)' err || fail "$(brief err)"
begin "--echo: the prompt before each text, once"
expect_status 0 generate --beam-width 4 --echo -N 2 -n 12 "$prompt"
[ "$(grep -c "^$prompt" out)" -eq 2 ] && [ "$(wc -l <out)" -eq 1 ] || fail "$(brief out)"
begin "behind a grammar: every hypothesis is a whole text of it, though sequences are dropped and used again"
expect_status 0 generate --beam-width 4 -N 3 -n 30 -0 --grammar 'root ::= " " ("yes" | "no" | "maybe") " " [a-z]{2,4} "."' 'The capital of France is'
[ "$(tr '\0' '\n' <out | grep -Ec '^ (yes|no|maybe) [a-z]{2,4}\.$')" -eq 3 ] || fail "$(brief out)"
expect_status 4 generate --beam-width 4 -n 2 --grammar 'root ::= " " "yes" " " "no" " " "yes"' 'The capital of France is'
begin "in a conversation"
expect_status 0 generate --beam-width 2 -n 3 -v --chat --template chatml --user "$prompt"
grep -q 'hypothesis 1' err || fail "$(brief err)"
begin "from a saved state"
generate -n 1 --save half 'The capital of France is' >text
: | generate --beam-width 3 --state half >>text
printf ' Paris.' | cmp -s - text || fail "$(brief text)"

begin "a hundred prompts, each with what it gets alone"
for i in $(seq 100); do
    echo "There was a cat number $i. It"
done >list
generate --lines -f list --beam-width 3 -N 2 -n 8 -0 >together
for i in 1 50 100; do
    generate --beam-width 3 -N 2 -n 8 -0 "There was a cat number $i. It" >alone
    head -z -n $((2 * i)) together | tail -z -n 2 | cmp -s - alone || fail "line $i: $(brief alone)"
done
[ "$(tr -dc '\0' <together | wc -c)" -eq 200 ] || fail "not 200 texts"

# ---- what it refuses ------------------------------------------------------------------------------------
begin "wrong options"
expect_status 2 beam --beam-width 2 -N 3 good
expect_error '^beam: -N 3: a beam of width 2 has no more than 2 hypotheses'
for option in '--beam-width 0' '--beam-width 5000' '--length-penalty 11' '--length-penalty nan' '--early-stopping maybe' '-N 0' "--stop="; do
    expect_status 2 beam $option good
done
expect_status 2 generate --beam-width 3 --temp 1 "$prompt"
expect_error '^generate: --temp is an option of sample, but beam search takes its place'
expect_status 2 generate --beam-width 3 -N 4 "$prompt"
expect_error '^generate: -N 4: a beam of width 3 has no more'
expect_status 2 generate --beam-width 3 --trace "$prompt"
expect_error '^generate: --trace follows one sequence'
begin "NaN, +infinity: errors with the position"
for value in 'nan NaN' 'inf [+]infinity'; do
    stream bad "logits([1, 2, float('${value% *}')], position=41, flags=OPEN)" 'end("dropped")'
    expect_status 1 beam bad
    expect_error "^beam: bad: record 1 \(LOGITS\): the logit of token 2 for position 42 is ${value#* }"
done
begin "nothing but -infinity: an error where no beam is left, and none where one is"
stream bad "logits([float('-inf')] * 3, position=41, flags=OPEN)" 'end("dropped")'
expect_status 1 beam bad
expect_error '^beam: bad: record 1 \(LOGITS\): no token can be selected for position 42: every logit is -infinity'
top=4294967295
stream two 'tokens([1], flags=OPEN)' 'logits([0, 1, 2], flags=OPEN)' 'tokens([2], position=1, flags=OPEN)' \
    "fork(0, 1, sequence=$top)" "tokens([1], position=1, sequence=$top, flags=OPEN)" \
    "logits([float('-inf')] * 3, position=1, flags=OPEN)" "logits([5, 4, 3], position=1, sequence=$top, flags=OPEN)" \
    "end('length')" "end('dropped', sequence=$top)"
expect_status 0 beam --beam-width 2 -n 2 two
shown out >got
grep -q '^FORK OPEN sequence=0 position=1$' got && grep -q '^TOKENS HELD OPEN GENERATED sequence=0 position=1 ids=1,0$' got || fail "$(brief got)"
begin "END in the middle of a search"
stream meddled 'tokens([1], flags=OPEN)' 'logits([0, 1, 2], flags=OPEN)' 'end("eos")'
expect_status 1 beam meddled
expect_error '^beam: meddled: record 3 \(END\): sequence 0 was ended in the middle of a search'
begin "input that ends in the middle"
stream cut 'tokens([1], flags=OPEN)' 'logits([0, 1, 2], flags=OPEN)' 'tokens([2], position=1, flags=OPEN)'
expect_status 1 beam cut
expect_error '^beam: cut: cut off'
begin "a vocabulary of another model"
stream foreign 'tokens([1], flags=OPEN, binding=5)' 'logits([0, 1, 2], flags=OPEN, binding=5)' 'end("eos")'
expect_status 1 beam --stop x foreign
expect_error 'made with vocabulary 00000005'
begin "a stage that is killed ends all, with one message"
generate --beam-width 4 --ignore-eos --no-cache "$prompt" >out 2>err &
pid=$!
sleep 0.3
victim=$(pgrep -P $pid decode-step)
kill -KILL "$victim"
wait $pid
[ $? -eq 3 ] || fail "status $?"
expect_error 'generate: decode-step was killed by signal 9'
begin "a reader that is gone ends all"
generate --beam-width 4 --lines -f list -n 8 2>err | head -c 5 >out
expect_no_error
finish
