# tokenize: where the text comes from, BOS, and what is written.
. "$TOP/tests/cli/lib.sh"
small=$BIN/unroll-small.gguf
stories=$UNROLL_TEST_DATA/stories/stories260K.gguf

check_help tokenize
check_output tokenize some text

text='The capital of France'
ids=$(tokenize --ids "$text" | cut -f1 | paste -sd, -)
expect_tokens() { # expect_tokens 'the line that stream.py shows'
    [ "$(shown out)" = "$1" ] || fail "wrote '$(shown out)', expected '$1'"
}

begin "text from an operand, several, -p, -f, standard input, and '-'"
for way in "'The capital of France'" 'The capital of France' "'The capital' of France" "-p 'The capital of France'" \
    "-p='The capital of France'" '-f file' '-f - <file' '<file' '- <file' '-- The capital of France' 'of France -p The'; do
    printf '%s' "$text" >file
    case $way in
    "-p='"*) way="--prompt='The capital of France'" ;;
    'of France -p The') continue ;;
    esac
    eval "tokenize $way" >out 2>err || fail "tokenize $way: $(brief err)"
    expect_tokens "TOKENS sequence=0 position=0 ids=$ids"
done
begin "text given twice"
for way in '-p a b' '-p a -f file' '-f file b'; do
    expect_status 2 tokenize $way
    expect_error '^tokenize: give the text once'
done
begin "a missing file"
expect_status 3 tokenize -f nowhere
expect_error '^tokenize: nowhere: cannot open: No such file'
begin "a text that would come from a terminal"
expect_status 2 script -qec 'tokenize --count' /dev/null
expect_match 'standard input is a terminal'
expect_status 2 script -qec 'tokenize --count -' /dev/null
expect_match 'standard input is a terminal'

begin "every byte comes back: NUL, newlines, spaces, what is not UTF-8"
python3 -S - <<'END'
import os
open("text", "wb").write(b"  \n\nab\0c\xff\xfe\xe2\x82 \xf0\x9f\x98\x80\r\n\t" + bytes(range(256)) + b" end \n")
END
tokenize -f text | detok >out || fail "status $?"
expect_same text out
tokenize <text | detok >out
expect_same text out
begin "an empty text is a record of count 0"
: >empty
for way in "''" '-f empty' '<empty' "-p ''"; do
    eval "tokenize $way" >out 2>err || fail "tokenize $way: $(brief err)"
    expect_tokens 'TOKENS sequence=0 position=0 ids='
done
begin "--append leaves the position open"
expect_status 0 tokenize --append "$text"
expect_tokens "TOKENS sequence=0 position=append ids=$ids"
begin "--sequence"
expect_status 0 tokenize --sequence 7 "$text"
expect_tokens "TOKENS sequence=7 position=0 ids=$ids"
expect_status 2 tokenize --sequence -1 "$text"
begin "--count and --ids"
expect_status 0 tokenize --count "$text"
expect_output "$(echo "$ids" | tr ',' '\n' | wc -l)"
expect_status 0 tokenize --ids 'The cat'
tab=$(printf '\t')
expect_match "^[0-9]+${tab}The${tab}normal$"
printf '"\\\n\t\377\001 x' >file
expect_status 0 tokenize --ids -f file
[ "$(cut -f2 out | tr -d '\n')" = '\"\\\n\t\xff\x01 x' ] || fail "found '$(cut -f2 out | tr -d '\n')'"
expect_status 0 tokenize --count ''
expect_output 0
expect_status 2 tokenize --count --ids x
expect_error 'not both'
begin "the binding is the vocabulary's fingerprint"
tokenize "$text" >out
prefill out >state || fail "prefill refused it"
begin "--special: texts of special tokens become these tokens"
# The small model's token that ends a text is its last.
end=$(python3 -S - "$small" <<'END'
import sys
data = open(sys.argv[1], "rb").read()
at = data.index(b"tokenizer.ggml.eos_token_id") + len("tokenizer.ggml.eos_token_id") + 4
print(int.from_bytes(data[at:at + 4], "little"))
END
)
stream one "tokens([$end])"
name=$(detok --special one)
expect_status 0 tokenize --special --ids "$name"
expect_output "$end$tab$name${tab}control"
expect_status 0 tokenize --ids "$name"
[ "$(wc -l <out)" -gt 1 ] || fail "one token without --special"
[ "$(cut -f2 out | tr -d '\n')" = "$name" ] || fail "found '$(cut -f2 out | tr -d '\n')'"

if [ -r "$stories" ]; then
    begin "--bos: auto, always, never, and never twice"
    export UNROLL_MODEL="$stories"
    first() { tokenize --ids "$@" | cut -f1 | head -n 2 | paste -sd, -; }
    [ "$(first a)" = 1,261 ] || fail "auto: $(first a)"
    [ "$(first --bos auto a)" = 1,261 ] || fail "auto: $(first --bos auto a)"
    [ "$(first --bos always a)" = 1,261 ] || fail "always: $(first --bos always a)"
    [ "$(first --bos never a)" = 261 ] || fail "never: $(first --bos never a)"
    case $(first --special '<s>a') in 1,1 | 1) fail "auto with <s>: $(first --special '<s>a')" ;; esac
    [ "$(first --special --bos always '<s>a')" = 1,1 ] || fail "always with <s>: $(first --special --bos always '<s>a')"
    [ "$(tokenize --count '')" = 1 ] || fail "an empty text: $(tokenize --count '') tokens"
    expect_status 0 tokenize ''
    expect_tokens 'TOKENS sequence=0 position=0 ids=1'
    begin "--append: no BOS, no prefix space"
    [ "$(tokenize --append --ids 'upon' | head -n 1 | cut -f2)" != ' upon' ] || fail "a space was added"
    [ "$(tokenize --append --ids ' upon' | cut -f2)" = ' upon' ] || fail "found $(tokenize --append --ids ' upon')"
    [ "$(tokenize --ids 'upon' | cut -f2 | paste -sd, -)" = '<s>, upon' ] || fail "found $(tokenize --ids 'upon')"
    expect_status 2 tokenize --append --bos always a
    expect_error '^tokenize: --append goes on with a text'
    expect_status 0 tokenize --append --bos never a
    begin "-m and UNROLL_MODEL name the model"
    [ "$(tokenize -m "$small" --ids The | cut -f2)" = The ] || fail "-m does not win"
    unset UNROLL_MODEL
    [ "$(tokenize -m "$stories" --ids Once | head -n 1 | cut -f1)" = 1 ] || fail "-m has no effect"
else
    skip "BOS and SentencePiece" "there is no $stories"
fi
begin "--bos always needs a model with BOS"
expect_status 1 tokenize --bos always a
expect_error 'has no BOS token'
begin "--pre: another pre-tokeniser, or an unknown one"
expect_status 0 tokenize --pre llama-bpe --ids ' 1'
cp out other
expect_status 0 tokenize --pre gpt-2 --ids ' 1'
cmp -s out other && fail "--pre llama-bpe has no effect"
expect_status 2 tokenize --pre no-such-thing a
expect_error "no-such-thing"
begin "a model that is none"
printf 'GGUX' >bad.gguf
expect_status 1 tokenize -m bad.gguf a
expect_error '^tokenize: bad.gguf: '
expect_status 3 tokenize -m nowhere.gguf a
expect_error '^tokenize: nowhere.gguf: cannot open: No such file'
begin "--lines: a sequence for each line, as it would be alone"
printf 'One\n  two three \nfour' >list
: >each
i=7
for line in One '  two three ' four; do
    tokenize --sequence $i "$line" >>each
    i=$((i + 1))
done
expect_status_from list 0 tokenize --lines --sequence 7
expect_same out each
echo >>list
expect_status 0 tokenize --lines --sequence 7 -f list
expect_same out each
expect_status 0 tokenize --append --lines --sequence 7 -f list
[ "$(shown out | grep -c 'position=append')" -eq 3 ] || fail "$(shown out)"
begin "--lines: a conversation in JSON on each"
printf '[{"role":"user","content":"One"}]\n[{"role":"user","content":"two"}]\n' >talks
tokenize --chat --template chatml --user One >each
tokenize --chat --template chatml --user two --sequence 1 >>each
expect_status 0 tokenize --chat --template chatml --lines -f talks
expect_same out each
echo '[{"role":}]' >>talks
expect_status 1 tokenize --chat --template chatml --lines -f talks
expect_error '^tokenize: line 3: the messages are not JSON: line 1, column'
expect_status 2 tokenize --chat --template chatml --lines --user x
begin "--lines: an empty line, no line, no number left, and with lists"
printf 'a\n\nb\n' >gap
expect_status 1 tokenize --lines -f gap
expect_error '^tokenize: line 2 is empty: it has no token to go on from'
expect_status 0 tokenize --append --lines -f gap
expect_status 0 tokenize --lines -p 'a'
: >empty
expect_status 1 tokenize --lines -f empty
expect_error 'the text has no line'
expect_status 1 tokenize --lines --sequence 4294967294 -f list
expect_error 'line 3: no number is left'
expect_status 2 tokenize --lines --ids -f list
expect_error '^tokenize: --lines makes sequences'
begin "-o FILE"
expect_status 0 tokenize -o written "$text"
cp written out
expect_tokens "TOKENS sequence=0 position=0 ids=$ids"
expect_status 0 tokenize -o written --count "$text"
cp written out
expect_output "$(echo "$ids" | tr ',' '\n' | wc -l)"
begin "records are not written to a terminal, unless --force says so; lists are"
expect_status 2 on_terminal "tokenize x"
expect_match 'is a terminal and the output is binary'
expect_status 0 on_terminal "tokenize --force x"
expect_match 'UNR1'
expect_status 0 on_terminal "tokenize --count x"
expect_match '^1'

finish
