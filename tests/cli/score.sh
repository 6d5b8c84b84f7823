# score: teacher forcing, beside sums made elsewhere, and prefill --window.
. "$TOP/tests/cli/lib.sh"
tab=$(printf '\t')
stories=$UNROLL_TEST_DATA/stories/stories260K.gguf

check_help score
tokenize 'The capital of France is Paris.' >tokens
prefill --logits all tokens >good
check_input score good
check_output score good

numpy=$(python_with numpy)
# Sums from the same logits, by numpy: PERPLEXITY BITS of a stream's one sequence; --bytes N.
cat >sums.py <<'END'
import os, struct, sys
import numpy
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
import stream
data, ids, rows = open(sys.argv[1], "rb").read(), {}, {}
at = 0
while at < len(data):
    kind, _, _, sequence, position, count, _, length = struct.unpack_from("<BBHIIIIQ", data, at + 4)
    payload = data[at + 64:at + 64 + length]
    at += 64 + length + -length % 64
    if kind == stream.TOKENS:
        ids.update({position + i: x for i, x in enumerate(struct.unpack(f"<{count}I", payload))})
    elif kind == stream.LOGITS:
        rows[position] = numpy.frombuffer(payload, dtype="<f4").astype(numpy.float64)
scores = {}
for position, row in rows.items():
    if position + 1 in ids:
        top = row.max()
        scores[position + 1] = row[ids[position + 1]] - top - numpy.log(numpy.exp(row - top).sum())
if sys.argv[2:] == ["--each"]:
    for position in sorted(ids):
        print(position, ids[position], scores.get(position, "none"))
else:
    total, n_bytes = sum(scores.values()), int(sys.argv[2])
    print(numpy.exp(-total / len(scores)), -total / numpy.log(2) / n_bytes, len(scores))
END
near() { # near A B TOLERANCE: relative
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; m = b < 0 ? -b : b; exit !(d <= t * m + 4e-15) }'
}

if [ -n "$numpy" ]; then
begin "each token's log-probability, none for the first"
score --tsv good >out 2>err || fail "$(brief err)"
"$numpy" sums.py good --each >want || fail "sums.py failed"
[ "$(head -n 1 out)" = "sequence${tab}position${tab}id${tab}logprob${tab}text" ] || fail "header '$(head -n 1 out)'"
tail -n +2 out | cut -f2-4 | tr '\t' ' ' | paste -d' ' - want >both
while read -r position id value wanted_position wanted_id wanted; do
    [ "$position $id" = "$wanted_position $wanted_id" ] || fail "position $position id $id, expected $wanted_position $wanted_id"
    if [ "$wanted" = none ]; then [ "$value" = none ]; else near "$value" "$wanted" 1e-12; fi || fail "position $position: $value, expected $wanted"
done <both
[ "$(wc -l <both)" -gt 3 ] || fail "$(wc -l <both) lines"
[ "$(tail -n +2 out | cut -f5 | tr -d '\n')" = 'The capital of France is Paris.' ] || fail "texts '$(cut -f5 out | tr -d '\n')'"
begin "the sums"
expect_status 0 score --total --tsv good
[ "$(head -n 1 out)" = "sequence${tab}tokens${tab}scored${tab}bytes${tab}logprob${tab}perplexity${tab}bits_per_byte" ] || fail "header '$(head -n 1 out)'"
[ "$(tail -n +2 out | cut -f1-4)" = "0${tab}7${tab}6${tab}28" ] || fail "found '$(brief out)'"
read -r perplexity bits n <<END
$("$numpy" sums.py good 28)
END
near "$(tail -n 1 out | cut -f6)" "$perplexity" 1e-12 || fail "perplexity $(tail -n 1 out | cut -f6), expected $perplexity"
near "$(tail -n 1 out | cut -f7)" "$bits" 1e-12 || fail "bits per byte $(tail -n 1 out | cut -f7), expected $bits"
else
    skip "sums beside numpy" "there is no numpy"
fi
begin "for people: a line for each token, and the sums"
expect_status 0 score good
[ "$(sed -n 1p out)" = '      0         none  The' ] || fail "found '$(sed -n 1p out)'"
expect_match '^      2    -0\.[0-9]{6}   of$'
expect_match '^sequence 0: 7 tokens, 6 of them scored, 28 bytes$'
score --total --tsv good | tail -n 1 | cut -f6-7 >sums
read -r perplexity bits <sums
expect_match "^    perplexity $(printf '%.6f' "$perplexity")$"
expect_match "^    bits per byte $(printf '%.6f' "$bits")$"
cp out all
expect_status 0 score --total good
tail -n 4 all >want
expect_same want out
begin "--json: an object on each line"
expect_status 0 score --json good
python3 - >err 2>&1 <<'END' || fail "$(brief err)"
import json
lines = [json.loads(line) for line in open("out")]
assert len(lines) == 8, lines
assert lines[0] == {"sequence": 0, "position": 0, "id": lines[0]["id"], "logprob": None, "text": "The"}, lines[0]
assert abs(sum(line["logprob"] for line in lines[1:7]) - lines[7]["logprob"]) < 1e-12
assert set(lines[7]) == {"sequence", "tokens", "scored", "bytes", "logprob", "perplexity", "bits_per_byte"}, lines[7]
END
expect_status 0 score --json --total good
[ "$(wc -l <out)" = 1 ] || fail "found '$(brief out)'"
begin "options that do not go together, and -o"
expect_status 2 score --tsv --json good
expect_error 'not both'
expect_status 0 score -o written good
expect_same written all

begin "worked numbers: two equal logits are a bit; an excluded token is -inf"
stream toy 'tokens([1, 2, 0])' 'logits([1, 1], position=1)'
expect_status 0 score --tsv toy
tail -n +2 out | cut -f2-3 | tr '\t\n' '  ' >got
[ "$(cat got)" = '0 1 1 2 2 0 ' ] || fail "found '$(cat got)'"
[ "$(tail -n +2 out | cut -f4 | head -n 2 | paste -sd,)" = none,none ] || fail "found '$(brief out)'"
near "$(tail -n 1 out | cut -f4)" -0.6931471805599453 1e-15 || fail "found '$(brief out)'"
stream toy 'tokens([1, 1])' 'logits([3, float("-inf")], position=0)'
expect_status 0 score --total --tsv toy
expect_match "${tab}-inf${tab}inf${tab}inf$"
stream toy 'tokens([0, 0])' 'logits([3, float("-inf")], position=0)'
expect_status 0 score --total --tsv toy
expect_match "${tab}0${tab}1${tab}0$"
begin "tokens may come after the logits, or before, or once more"
stream late 'tokens([1])' 'logits([0, 0, 0, 0], position=0)' 'tokens([2], position=1)' 'logits([0, 0, 0, 0], position=1)' 'tokens([3], position=2)' 'logits([0, 0, 0, 0], position=2)'
stream early 'tokens([1, 2, 3])' 'logits([0, 0, 0, 0], position=0)' 'logits([0, 0, 0, 0], position=1)' 'logits([0, 0, 0, 0], position=1)' 'logits([0, 0, 0, 0], position=2)'
score --tsv late >want || fail "status $?"
expect_status 0 score --tsv early
expect_same want out
[ "$(cut -f4 out | paste -sd,)" = "logprob,none,-1.3862943611198906,-1.3862943611198906" ] || fail "found '$(brief out)'"
begin "several sequences, interleaved; a copy goes on from what it is a copy of"
stream two 'tokens([1, 2], flags=OPEN)' 'tokens([3], sequence=7, flags=OPEN)' 'logits([0, 0, 0, 0], position=0, flags=OPEN)' \
    'logits([0] * 8, position=0, sequence=7, flags=OPEN)' 'tokens([4], position=1, sequence=7)' 'logits([0] * 4, position=1)' \
    'fork(0, 2, sequence=9)' 'tokens([1], position=2, sequence=9)' 'tokens([2], position=2)'
expect_status 0 score --total --tsv two
printf '0\t3\t2\n7\t2\t1\n9\t1\t1\n' >want
tail -n +2 out | cut -f1-3 >got
expect_same want got
expect_status 0 score --total two
expect_match '^all sequences: 6 tokens, 4 of them scored'
begin "a sequence that was dropped does not count, and its id may come again"
stream dropped 'tokens([1, 2], flags=OPEN)' 'logits([0] * 4, position=0, flags=OPEN)' 'tokens([3, 1], sequence=5, flags=OPEN)' \
    'logits([0] * 4, position=0, sequence=5, flags=OPEN)' 'end("dropped", sequence=5, position=2)' 'logits([0] * 4, position=1)' \
    'fork(0, 2, sequence=5)' 'tokens([3], position=2, sequence=5)'
expect_status 0 score --total --tsv dropped
[ "$(tail -n +2 out | cut -f1-3 | tr '\t\n' ' |')" = '0 2 1|5 1 1|' ] || fail "found '$(brief out)'"
begin "streams that cannot be scored"
stream none 'tokens([1, 2])'
expect_status 1 score --total none
expect_error '2 tokens, but no logits of the positions before them \(prefill --logits all\)'
stream nothing 'model()'
expect_status 1 score nothing
expect_error 'no tokens'
stream outside 'tokens([1, 5])' 'logits([0, 0], position=0)'
expect_status 1 score outside
expect_error 'record 2 \(LOGITS\): the token at position 1 is 5, but there are 2 logits'
stream nan 'tokens([1, 1])' 'logits([0, float("nan")], position=0)'
expect_status 1 score nan
expect_error 'the logits of position 0 are no distribution'
stream other 'tokens([1, 1], binding=5)' 'logits([0, 0], position=0)'
expect_status 1 score other
expect_error 'made with vocabulary 00000005, but that of .* is [0-9a-f]{8} \(-m names the model\)'
begin "one token alone, an empty text: nothing to score, and no error"
tokenize a | prefill --logits all | score --total >out 2>err || fail "$(brief err)"
expect_match '1 tokens, 0 of them scored, 0 bytes'
expect_match 'perplexity none'

begin "the log-probabilities of a generated text are those that sample gave, bit for bit"
generate -n 12 --temp 0.9 --top-p 0.95 -s 3 --json --logprobs 0 --save state 'Once upon a time' >chosen 2>err || fail "$(brief err)"
sed -n 's/.*"raw_logprob":\([^,}]*\).*/\1/p' chosen >want
python3 -S "$TOP/tests/cli/stream.py" --show state | sed -n 's/^TOKENS.*ids=//p' | paste -sd, >ids
stream again "tokens([$(cat ids)])"
prefill --logits all again | score --tsv | cut -f4 | tail -n "$(wc -l <want)" >got
[ "$(wc -l <want)" = 12 ] || fail "$(wc -l <want) log-probabilities ($(brief chosen))"
expect_same want got

begin "memory does not grow with the text"
cat >long.py <<'END'
import resource, subprocess, sys
sys.path.insert(0, sys.argv[1])
import stream
n = int(sys.argv[2])
process = subprocess.Popen(["score", "--total"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
process.stdin.write(stream.tokens([1] * n, flags=stream.OPEN))
for p in range(n):
    process.stdin.write(stream.logits([0.0] * 20000, position=p, flags=stream.OPEN if p + 1 < n else 0))
process.stdin.close()
assert process.wait() == 0
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
few=$(python3 long.py "$TOP/tests/cli" 20) many=$(python3 long.py "$TOP/tests/cli" 400)
[ "$few" -gt 0 ] && [ "$many" -lt $((few + 2000)) ] || fail "$few kB for 20 tokens, $many kB for 400"

# ---- windows -----------------------------------------------------------------------------------------

long=$(for i in 1 2 3 4 5 6 7 8; do printf 'Once upon a time there was a little girl named Lily. The capital of France is Paris. '; done)
begin "prefill --window: one window that holds the text gives what there is without"
tokenize "$long" >text
n=$(tokenize --count "$long")
prefill --logits all text | score --tsv >want
prefill --logits all --window $n text | score --tsv >out
expect_same want out
prefill --logits all --window 512 --stride 1 text | score --tsv >out
expect_same want out
begin "prefill --window: every token once, from the logits of its window"
for size in '20 10' '20 19' '20 1' '7 3' '2 1' '33 16'; do
    window=${size% *} stride=${size#* }
    prefill --logits all --window $window --stride $stride text >windows 2>err || fail "$(brief err)"
    score --tsv windows >out 2>err || fail "$size: $(brief err)"
    cut -f1-3,5 want >a
    cut -f1-3,5 out >b
    cmp -s a b || fail "$size: other tokens"
    [ "$(grep -c none out)" = 1 ] || fail "$size: $(grep -c none out) without a log-probability"
    # The last token, by hand: the window that it is in begins a multiple of the stride further on.
    start=0 end=$window
    while [ $end -lt $n ]; do start=$((start + stride)) end=$((start + window)); done
    python3 - $start $n <<'END' >view || fail "view"
import os, struct, sys
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
import stream
data = open("text", "rb").read()
ids = struct.unpack_from("<%dI" % struct.unpack_from("<I", data, 16)[0], data, 64)
sys.stdout.buffer.write(stream.tokens(list(ids[int(sys.argv[1]):int(sys.argv[2])])))
END
    prefill --logits all view | score --tsv | tail -n 1 | cut -f4 >last
    [ "$(tail -n 1 out | cut -f4)" = "$(cat last)" ] || fail "$size: the last token $(tail -n 1 out | cut -f4), expected $(cat last)"
done
begin "prefill --window: half a window is the stride; the batch and the threads change nothing"
prefill --logits all --window 20 text >a
prefill --logits all --window 20 --stride 10 -b 7 -t 1 text >b
expect_same a b
begin "prefill --window: a text longer than the context; several sequences; the last logits are a question"
for i in 1 2 3; do printf '%s' "$long"; done >longer
tokenize -f longer >text2
expect_status 1 prefill -c 64 --logits all text2
expect_error 'the context is 64'
tokenize --sequence 4 "$long" >>text2
prefill -c 64 --logits all --window 64 text2 >windows 2>err || fail "$(brief err)"
score --total --tsv windows >out 2>err || fail "$(brief err)"
[ "$(tail -n 1 out | cut -f1-3)" = "4$tab$n$tab$((n - 1))" ] || fail "found '$(brief out)'"
[ "$(sample -n 1 windows | detok | wc -l)" -gt 0 ] || fail "sample answers nothing"
begin "prefill --window: what it refuses"
for way in '--window 8' '--logits all --window 1' '--logits all --stride 4' '--logits all --window 8 --stride 8' '--logits all --window 8 --stride 9' \
    '--logits all --window 8 --reuse good' '--logits all --window 8 --mpi=always' '--logits all --window 8 -c 4'; do
    expect_status 2 prefill $way text
    expect_error '^prefill: '
done
expect_status 1 prefill --logits all --window 8 good
expect_error 'sequence 0 has a cache: --window takes texts from their beginning'
stream middle 'tokens([1, 2], position=5)'
expect_status 1 prefill --logits all --window 8 middle
expect_error 'sequence 0 does not begin at position 0'

if [ -r "$stories" ]; then
    begin "SentencePiece: the space before the text is no byte of it; BOS begins every window"
    tokenize -m "$stories" 'Once upon a time' | prefill -m "$stories" --logits all | score -m "$stories" --total --tsv | tail -n 1 | cut -f4 >got
    [ "$(cat got)" = 16 ] || fail "$(cat got) bytes, expected 16"
    tokenize -m "$stories" "$long" | prefill -m "$stories" --logits all --window 9 --stride 8 >windows
    python3 -S "$TOP/tests/cli/stream.py" --show windows | sed -n 's/^TOKENS.*ids=\([0-9]*\).*/\1/p' | sort -u >got
    [ "$(cat got)" = 1 ] || fail "windows begin with '$(brief got)'"
    score -m "$stories" --total --tsv windows | tail -n 1 | cut -f4 >got
    [ "$(cat got)" = "$(printf '%s' "$long" | wc -c)" ] || fail "$(cat got) bytes"
fi
if [ -r "$stories" ] && [ -n "$numpy" ]; then
    begin "perplexity of the published story under stories260K"
    text=$UNROLL_TEST_DATA/stories/expected.txt
    tokenize -m "$stories" -f "$text" | prefill -m "$stories" --logits all >all
    score -m "$stories" --total --tsv all >out 2>err || fail "$(brief err)"
    read -r perplexity bits scored <<END
$("$numpy" sums.py all "$(wc -c <"$text")")
END
    [ "$(tail -n 1 out | cut -f3-4)" = "$scored$tab$(wc -c <"$text" | tr -d ' ')" ] || fail "found '$(brief out)', expected $scored scored"
    near "$(tail -n 1 out | cut -f6)" "$perplexity" 1e-6 || fail "perplexity $(tail -n 1 out | cut -f6), numpy has $perplexity"
    near "$(tail -n 1 out | cut -f7)" "$bits" 1e-6 || fail "bits per byte $(tail -n 1 out | cut -f7), numpy has $bits"
else
    skip "stories260K" "there is no $stories, or no numpy"
fi

finish
