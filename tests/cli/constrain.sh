# constrain: which logits it leaves, how it follows a text, when it ends with status 4, and what schemas give.
. "$TOP/tests/cli/lib.sh"
prose=$BIN/unroll-small.gguf
draw=$BIN/../tests/draw-texts
eog=$(python3 -S - <<'END'
import os, subprocess
text = subprocess.run(["tokenize", "--ids", "--special", "--", "<|endoftext|>"], stdout=subprocess.PIPE, text=True).stdout
print(text.split()[0])
END
)

# ---- as a program ----

check_help constrain
stream good "model(n_logits=2048, n_vocabulary=2048, eog=[$eog], vocabulary=0)" 'tokens([1, 2])' 'logits({3: 1.5}, n=2048, position=1)'
mkdir wrapped
printf '#!/bin/sh\nexec "%s/constrain" --any-json "$@"\n' "$BIN" >wrapped/constrain
chmod +x wrapped/constrain
real=$BIN BIN=$PWD/wrapped
check_input constrain good
check_output constrain good
BIN=$real

begin "one grammar, neither none nor two"
for options in '' '--json --any-json --grammar x' '--json-schema {} --json' '--grammar-file a --json-schema-file b'; do
    expect_status 2 constrain $options good
    expect_error '^constrain: give one of --grammar, --grammar-file, --json-schema, --json-schema-file and --any-json'
done
begin "a bad grammar: its line and rule"
printf 'root ::= a\n\na ::= "x" (\n' >bad.gbnf
expect_status 1 constrain --grammar-file bad.gbnf good
expect_error "^constrain: bad.gbnf:3: rule 'a': a group in parentheses does not end"
expect_status 1 constrain --grammar 'root ::= x root | root "y"
x ::= "x"?' good
expect_error "^constrain: --grammar:1: rule 'root' begins with itself \(root, root\): left recursion is not supported"
expect_status 1 constrain --grammar 'start ::= "x"' good
expect_error "^constrain: --grammar: there is no rule 'root'"
begin "a bad schema: the line of its JSON, the name and place of a keyword"
printf '{\n  "type": "object",\n}\n' >bad.json
expect_status 1 constrain --json-schema-file bad.json good
expect_error '^constrain: bad.json:3: not JSON: '
expect_status 1 constrain -j '{"properties": {"a": {"items": {"contains": {}}}}}' good
expect_error "^constrain: --json-schema: schema '#/properties/a/items': keyword 'contains' is not supported"
expect_status 1 constrain -j '{"propertees": {}}' good
expect_error "keyword 'propertees' is unknown"
begin "a file that is not there, and one without a grammar"
expect_status 3 constrain --grammar-file none.gbnf good
expect_error '^constrain: none.gbnf: cannot open: No such file'
expect_status 3 constrain --json-schema none.json good
expect_error '^constrain: none.json: cannot open: No such file'
: >empty.gbnf
expect_status 1 constrain --grammar-file empty.gbnf good
expect_error "^constrain: empty.gbnf: there is no rule 'root'"
head -c 3000 "$BIN/constrain" >noise
for option in --grammar-file --json-schema-file; do
    expect_status 1 constrain $option noise good
    expect_error '^constrain: noise:1: '
done
begin "the vocabulary must be that of the stream; -m names it"
stream foreign 'logits({3: 1}, n=2048, binding=5)'
expect_status 1 constrain --json foreign
expect_error "^constrain: foreign: record 1 \(LOGITS\): made with vocabulary 00000005, but that of '.*' is [0-9a-f]{8}"
expect_status 3 constrain --json -m nothing.gguf good
expect_error 'nothing.gguf: cannot open'
begin "-o FILE, and no records to a terminal unless --force says so"
constrain --json good >want
expect_status 0 constrain --json -o written good
expect_same written want
expect_status 2 on_terminal "'$BIN/constrain' --json good"
expect_match 'is a terminal and the output is binary'
expect_status 0 on_terminal "'$BIN/constrain' --json --force good"
expect_match 'UNR1'

# ---- masks ----

# What each token stands for, one JSON string in a line.
python3 -S - >every <<'END'
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
from stream import *
sys.stdout.buffer.write(tokens(list(range(2048)), position=5))
END
detok --json every >every.json
# allowed 'PYTHON' STREAM: the tokens whose logits are finite in the last LOGITS of ./out are those of which the
# expression is true, p being the bytes of the piece; all others have -inf, and what is finite is what came in.
allowed() {
    python3 -S "$TOP/tests/cli/stream.py" --logits out | tail -n 1 >after
    python3 -S "$TOP/tests/cli/stream.py" --logits "$2" | tail -n 1 >before
    python3 -S - "$1" "$eog" <<'END' 2>why || fail "$(tail -n 1 why)"
import json, sys
pieces = [json.loads(line) for line in open("every.json", "rb")][:2048]
pieces = [bytes(x["bytes"]) if "bytes" in x else x["text"].encode() for x in pieces]
before, after = (list(map(float, open(name).read().split())) for name in ("before", "after"))
end = int(sys.argv[2])
for i, p in enumerate(pieces):
    wanted = eval(sys.argv[1])
    found = after[i] != float("-inf")
    assert found == bool(wanted), f"token {i} {p!r}: {'allowed' if found else 'forbidden'}"
    assert not found or after[i] == before[i], f"token {i}: {after[i]} from {before[i]}"
END
}
begin "tokens that begin the text are left, with their logits; all others, EOS and padding get -infinity"
stream some "model(n_logits=2060, n_vocabulary=2048, eog=[$eog], vocabulary=0)" 'tokens([1, 2])' 'logits([i / 7 for i in range(2060)], position=1)'
expect_status 0 constrain --grammar 'root ::= "Paris is old" | " London"' some
allowed 'p and (b"Paris is old".startswith(p) or b" London".startswith(p))' some
[ "$(wc -w <after)" = 2060 ] && [ "$(tr ' ' '\n' <after | tail -n 12 | sort -u)" = -inf ] || fail "padding is allowed"
begin "EOS where the text may end, and nothing else where it can only end"
paris=$(tokenize --append --ids -- Paris | cut -f1 | paste -sd,)
python3 -S - "$paris" "$eog" <<'END' >some
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
from stream import *
ids, eog = eval("[" + sys.argv[1] + "]"), [int(sys.argv[2])]
sys.stdout.buffer.write(model(n_logits=2048, n_vocabulary=2048, eog=eog, vocabulary=0) + tokens([1, 2])
                        + tokens(ids, position=2, flags=GENERATED) + logits([i / 7 for i in range(2048)], position=1 + len(ids)))
END
expect_status 0 constrain --grammar 'root ::= "Paris" "!"?' some
allowed 'p == b"!" or i == end' some
expect_status 0 constrain --grammar 'root ::= "Paris"' some
allowed 'i == end' some
expect_status 0 sh -c "constrain --grammar 'root ::= \"Paris\"' some | sample"
shown out | grep -q "^END .* eos token=$eog" || fail "found $(shown out)"
begin "a text that was given begins the text anew; FORK takes the text of the copy"
python3 -S - "$paris" <<'END' >some
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["TOP"] + "/tests/cli")
from stream import *
ids = eval("[" + sys.argv[1] + "]")
n = len(ids)
row = [1.0] * 2048
sys.stdout.buffer.write(tokens([1, 2]) + tokens(ids, position=2, flags=GENERATED) + logits(row, position=1 + n)
                        + fork(0, 2, sequence=1) + logits(row, position=1, sequence=1)
                        + fork(0, 2 + n, sequence=2) + logits(row, position=1 + n, sequence=2)
                        + fork(0, 2) + logits(row, position=1)
                        + tokens(ids, position=2) + logits(row, position=1 + n))
END
expect_status 0 constrain --grammar 'root ::= "Paris"' some
python3 -S "$TOP/tests/cli/stream.py" --logits out | awk '{ n = 0; for (i = 1; i <= NF; i++) n += $i != "-inf"; print (n > 1 ? "beginning" : "end") }' >got
printf '%s\n' end beginning end beginning beginning >want
expect_same got want
begin "all logits of prefill are those of the beginning of a text"
tokenize 'The capital of France' | prefill --logits all | constrain --json >out
python3 -S "$TOP/tests/cli/stream.py" --logits out | awk '{ n = 0; for (i = 1; i <= NF; i++) n += $i != "-inf"; print n }' | sort | uniq -c >got
[ "$(wc -l <got)" = 1 ] || fail "found $(cat got)"
begin "--keep-raw sends the model's own logits on"
expect_status 0 constrain --json --keep-raw good
[ "$(shown out | grep -E 'RAW|LOGITS' | sed 's/ sequence.*count/ count/' | tr '\n' ' ')" = 'RAW count=2048 LOGITS count=2048 ' ] || fail "found $(shown out)"
begin "a token that cannot follow, of a stream made without the grammar: status 4, the text and what was expected"
expect_status 4 constrain --grammar 'root ::= "Pa" [a-c]' some
expect_error "^constrain: some: record 3 \(LOGITS\): sequence 0: token [0-9]+ \".+\" at position [0-9]+ cannot follow \".*\"(, but for its beginning)?; expected .+"
begin "a dead end: another filter has forbidden all; nothing can end the text; there is no token for a byte"
tokenize 'The capital of France is' | prefill >s0
penalize --ban R s0 >banned
expect_status 4 constrain --grammar 'root ::= "R"' banned
expect_error "constrain: .*sequence 0, position 5, after \"\": all tokens that the grammar allows have the logit -infinity; expected 'R'"
stream endless 'model(n_logits=2048, n_vocabulary=2048, vocabulary=0)' 'logits([1] * 2048)'
expect_status 4 constrain --grammar 'root ::= ""' endless
expect_error 'after "": the text is complete, but the model has no token that ends it$'
stream few 'model(n_logits=9, n_vocabulary=9, vocabulary=0)' 'logits([1] * 9)'
expect_status 4 constrain --grammar 'root ::= "~"' few
expect_error "expected '~'"

# ---- the loop ----

prompt='The capital of France is'
grammar='root ::= " " [A-Z] [a-z]+ (" " [a-z]+){1,3} "."'
begin "in the loop of generate, through a FIFO, and by hand with a process for each token: one text"
generate --grammar "$grammar" --temp 0.8 -s 4 "$prompt" >looped 2>err || fail "generate: $(brief err)"
grep -Eq '^ [A-Z][a-z]+( [a-z]+){1,3}\.$' looped || fail "generated '$(brief looped)'"
mkfifo back
{ if tokenize -- "$prompt" | prefill; then cat back; else : <back; fi; } |
    decode-step --stream | constrain --grammar "$grammar" | sample --temp 0.8 -s 4 | tee back | detok >piped
expect_same piped looped
cp s0 state
: >chosen
for i in $(seq 60); do
    constrain --grammar "$grammar" state | sample --temp 0.8 -s 4 >token || fail "sample"
    cat token >>chosen
    shown token | grep -q '^END' && break
    decode-step state token >next && mv next state
done
shown token | grep -q '^END .* eos' || fail "did not end: $(shown token)"
detok chosen >by-hand
expect_same by-hand looped
begin "the filter is there only when it is asked for, and after penalize"
expect_status 0 generate --ignore-eos -n 3 "$prompt"
cp out plain
expect_status 0 generate --ignore-eos -n 3 --grammar 'root ::= [^\x00]*' "$prompt"
expect_same out plain
expect_status 0 generate --ban ' Rome' --grammar 'root ::= " Rome"' "$prompt"
expect_bytes ' Rome' # spelled by other tokens
begin "a text that a limit ended before it was complete: all of it is printed, and the status is 4"
schema='{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}'
expect_status 4 generate -n 5 --json-schema "$schema" "$prompt"
expect_error '^constrain: sequence 0 ended \(length\) before its text was complete: after ".*name.*" expected .+'
[ "$(tokenize --append --ids -f out | wc -l)" -ge 4 ] || fail "printed only '$(brief out)'"
cp out five
begin "... though the reader of the text is slow"
{ generate -n 5 --json-schema "$schema" "$prompt" 2>err; echo $? >status; } | { sleep 1; cat >out; }
expect_same out five
[ "$(cat status)" = 4 ] || fail "status $(cat status)"
generate -n 400 -c 500 --grammar 'root ::= [a-z ]{4000}' "$prompt" >long 2>err
[ $? = 4 ] || fail "status $?"
{ generate -n 400 -c 500 --grammar 'root ::= [a-z ]{4000}' "$prompt" 2>err; echo $? >status; } | { sleep 1; cat >out; }
expect_same out long
begin "... and by a stop string, the context, or no token at all; complete ones have status 0"
expect_status 4 generate --stop '"' --json-schema "$schema" "$prompt"
expect_error 'ended \(stop\)'
expect_status 4 generate -c 8 --json-schema "$schema" "$prompt"
expect_error 'ended \(context\)'
expect_status 4 generate -n 0 --json-schema "$schema" "$prompt"
expect_error 'ended \(length\) before its text was complete: after "" expected'
expect_status 0 generate -n 5 --grammar 'root ::= [a-zA-Z ]*' "$prompt"
expect_status 0 generate -n 0 --grammar 'root ::= "x"?' "$prompt"
begin "two sequences that were not complete are one line"
stream two "model(n_logits=2048, n_vocabulary=2048, eog=[$eog], vocabulary=0)" 'tokens([1])' 'tokens([1], sequence=3)' 'end("length", sequence=3)' 'end("context")'
expect_status 4 constrain --json two
expect_error '^constrain: sequence 3 ended \(length\) before its text was complete: after "" expected .* \(and 1 more did\)$'
[ "$(shown out | grep -c END)" = 2 ] || fail "END was not passed on"
stream dropped "model(n_logits=2048, n_vocabulary=2048, eog=[$eog], vocabulary=0)" 'tokens([1])' 'end("dropped")'
expect_status 0 constrain --json dropped
begin "a dead end in the loop: one message, status 4, and the text before it is printed"
expect_status 4 generate --ban '!' --grammar 'root ::= " Rome" "!"' "$prompt"
expect_error '^constrain: standard input: record [0-9]+ \(LOGITS\): sequence 0, position [0-9]+, after " Rome": all tokens that the grammar allows have the logit -infinity; expected .!.$'
expect_bytes ' Rome'
begin "a state that was saved in the midst of a text goes on there"
generate -n 4 --save half --json-schema "$schema" --temp 0.7 -s 9 "$prompt" >first 2>err
[ $? = 4 ] || fail "status $?"
generate --state half --json-schema "$schema" --temp 0.7 -s 9 </dev/null >second || fail "generate --state"
generate --json-schema "$schema" --temp 0.7 -s 9 "$prompt" >whole
cat first second >out
expect_same out whole
begin "generate refuses what constrain refuses"
expect_status 1 generate --grammar 'root ::= (' "$prompt"
expect_error '^constrain: --grammar:1: '
expect_status 2 generate --any-json --grammar 'root ::= "x"' "$prompt"
expect_error '^constrain: give one of'
expect_status 2 generate --grammar-file - "$prompt"
expect_error '^generate: --grammar-file: expected the name of a file'
begin "a grammar and a schema are texts or files"
printf 'root ::= " Rome"' >rome.gbnf
printf ' {"const": "Rome"}' >rome.json
for option in '--grammar rome.gbnf' '--grammar-file rome.gbnf'; do
    expect_status 0 generate $option "$prompt"
    expect_bytes ' Rome'
done
for option in '-j rome.json' '--json-schema-file rome.json' '--json-schema {"const":"Rome"}'; do
    expect_status 0 generate $option "$prompt"
    grep -Eq '^ ?"Rome"$' out || fail "found $(brief out)"
done
cp rome.json true.json
expect_status 0 generate -j true.json "$prompt"
grep -Eq '^ ?"Rome"$' out || fail "found $(brief out)"
expect_status 1 constrain -j ' false ' good
expect_error "schema '#' matches no text"
for option in --grammar --grammar-file -j --json-schema-file; do
    expect_status 2 constrain $option '' good
    expect_error '^constrain: expected a grammar, a schema or the name of a file, found an empty text'
done

begin "a hundred thousand values take seconds, not minutes"
for value in '"name %d"' '%d'; do
    awk -v value="$value" 'BEGIN { printf "{\"enum\": [0"; for (i = 1; i < 100000; i++) printf ", " value, i; print "]}" }' >long.json
    timeout 300 constrain --json-schema-file long.json good >out 2>err || fail "status $? ($(brief err))"
done

# ---- what comes out ----

begin "a range of emoji yields whole characters of it"
for seed in 1 2 3 4 5 6 7 8; do
    generate --grammar 'root ::= [\U0001F600-\U0001F64F]{3}' --temp 3 -s $seed "$prompt" >out 2>err || fail "seed $seed: $(brief err)"
    python3 -S -c 'import sys
text = open("out", "rb").read().decode()
sys.exit(len(text) != 3 or any(not 0x1f600 <= ord(c) <= 0x1f64f for c in text))' || fail "seed $seed: found '$(brief out)'"
done
if ! python3 -c 'import jsonschema' 2>/dev/null; then
    skip "texts of schemas validate" "there is no python3-jsonschema"
else
    for schema in "$TOP"/tests/schemas/*.json; do
        begin "200 texts of $(basename "$schema") parse and validate"
        "$draw" -m "$prose" --json-schema-file "$schema" >texts 2>err || fail "$(brief err)"
        python3 "$TOP/tests/cli/validate.py" "$schema" <texts >out 2>err || fail "$(brief err)"
        read -r n different <out
        [ "${n:-0}" = 200 ] && [ "${different:-0}" -ge 40 ] || fail "$(brief out)"
    done
    begin "200 texts of any JSON parse"
    echo true >true.json
    "$draw" -m "$prose" --json | python3 "$TOP/tests/cli/validate.py" true.json >out 2>err || fail "$(brief err)"
    begin "the texts of the loop validate, whatever the seed"
    for name in person event device; do
        for seed in 1 2 3 4; do
            generate -j "$TOP/tests/schemas/$name.json" --temp 1.5 -n 400 -s $seed --bias '"=3' "$prompt" >text 2>err
            found=$?
            [ $found = 4 ] && continue # it was not complete: nothing to look at
            [ $found = 0 ] || fail "$name, seed $seed: status $found ($(brief err))"
            { cat text; printf '\0'; } | python3 "$TOP/tests/cli/validate.py" "$TOP/tests/schemas/$name.json" >out 2>err || fail "$name, seed $seed: $(brief err)"
        done
    done
fi

finish
