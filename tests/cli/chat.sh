# Conversations: tokenize --chat and generate --chat.
. "$TOP/tests/cli/lib.sh"
small=$BIN/unroll-small.gguf
tab=$(printf '\t')

if python=$(python_with jinja2); then
    "$python" "$TOP/tests/cli/chat.py" >lines 2>&1 || echo "not ok chat.py: $(tail -n 1 lines)"
    cat lines
    grep -q '^not ok' lines && failed=1
else
    skip "templates beside Jinja" "there is no python3-jinja2"
fi

# vocabulary FILE 'bpe(...)'
vocabulary() { python3 -S "$TOP/tests/cli/vocabulary.py" "$@" || fail "vocabulary.py failed"; }
chatml="\"{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\\\n' + m['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}\""
vocabulary chatml.gguf "bpe(special=['<|im_start|>', '<|im_end|>'], user=['<tool>', '  '], eos=1, chat_template=$chatml)"
export UNROLL_MODEL="$PWD/chatml.gguf"
rendered() { tokenize --chat "$@" 2>err | detok --special; }
expect_rendered() { # expect_rendered 'JSON' 'escaped text of the user turn'
    printf '%s' "$1" >messages
    rendered -f messages >out
    printf "%b" "<|im_start|>user\n$2<|im_end|>\n<|im_start|>assistant\n" >want
    cmp -s want out || fail "found '$(brief out)', expected '$(brief want)' $(brief err)"
}

begin "messages from standard input, -f, an operand and -p"
json='[{"role": "user", "content": "Hello"}]'
printf '%s' "$json" >messages
rendered --user Hello >want
for way in '<messages' '-f messages' '-f - <messages' '- <messages' '"$json"' '-p "$json"'; do
    eval "rendered $way" >out
    cmp -s want out || fail "$way: found '$(brief out)' $(brief err)"
done
begin "contents keep their bytes: NUL, escapes, characters by surrogates, white space"
expect_rendered '[{"role": "user", "content": "a\u0000b"}]' 'a\0b'
expect_rendered '[{"content": " \ud83d\ude00\u00e9\n\t\"\\ ", "role": "user"}]' ' \360\237\230\200\303\251\n\t"\\ '
expect_rendered '[{"role": "user", "content": ""}]' ''
expect_rendered ' [ {"role": "user",
   "content": "é\r\n"} ] ' 'é\r\n'
begin "--system and --user: the same as JSON, any bytes"
printf '[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]' | rendered >want
rendered --system S --user U >out
expect_same want out
rendered --user "$(printf 'a\377\nb')" >out
expect_bytes '<|im_start|>user\na\0377\nb<|im_end|>\n<|im_start|>assistant\n'
rendered --user= --system= >out
expect_bytes '<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n'

begin "JSON that is wrong: the place is named"
refused() { # refused 'JSON' 'message'
    printf '%b' "$1" >messages
    expect_status 1 tokenize --chat -o unwritten -f messages
    expect_error "$2"
}
refused '' "^tokenize: the messages are not JSON: line 1, column 0"
refused 'Hello' "not JSON: line 1, column"
refused '[{"role": "user",\n "content": "x\\ud800"}]' "not JSON: line 2, column [0-9]+: .*D800"
refused '[{"role": "user", "content": "x\\udc00\\ud800"}]' "not JSON: line 1, column [0-9]+: .*DC00"
refused '[{"role": "user", "content": "x\0377"}]' "not JSON: line 1, column [0-9]+: .*0xff"
refused '[{"role": "user", "content": "x"}] []' "not JSON: line 1, column"
refused '[{"role": "user", "content": "x", "content": "y"}]' "not JSON: .*duplicate"
refused "$(printf '%03000d' 0 | tr 0 '[')" "not JSON: .*depth"
refused '{"role": "user", "content": "x"}' 'expected an array like .*, found an object'
refused '[]' 'found an empty one'
refused '["x"]' 'message 1: expected an object, found a string'
refused '[{"role": "user", "content": "x"}, {"role": "user"}]' "message 2: 'content' is missing"
refused '[{"content": "x"}]' "message 1: 'role' is missing"
refused '[{"role": "user", "content": null}]' "message 1: 'content': expected a string, found null"
refused '[{"role": 7, "content": "x"}]' "message 1: 'role': expected a string, found a number"
refused '[{"role": "tool", "content": "x"}]' "message 1: role 'tool' is not supported"
refused '[{"role": "user\\u0000", "content": "x"}]' "message 1: role 'user' is not supported"
refused '[{"role": "user", "content": "x", "tool_calls": []}]' "message 1: 'tool_calls' is not supported"
refused '[{"role": "system", "content": "x"}]' "the conversation has no message of the user"
begin "options that do not go together"
for way in '--user x' '--system x' '--template chatml x' '--chat --system x' '--chat --user x y' '--chat --user x -p y' \
    '--chat --user x -f messages' '--chat --append --user x' '--chat --special --user x'; do
    expect_status 2 tokenize $way
    expect_error '^tokenize: '
done
expect_status 2 tokenize --chat --template no-such --user x -o unwritten
expect_error "^tokenize: --template: 'no-such' is none of .*chatml.*llama3"
[ ! -e unwritten ] || fail "wrote a file"

begin "every name of --template is one of the manual's, and works"
names=$(sed -n 's/.*none of //p' err | tr ' ' '\n' | grep -v '^$')
for name in $names; do
    grep -q "^\.Cm $name\( ,\|\$\| \.\)" "$TOP/man/man1/tokenize.1" || fail "$name is not in tokenize.1"
    expect_status 0 tokenize --chat --template "$name" --system S --user U --count
done
[ "$(echo "$names" | wc -l)" -gt 40 ] || fail "$(echo "$names" | wc -l) names"

begin "a template that is not known: its first line, and --template"
vocabulary odd.gguf "bpe(special=['<|im_end|>'], eos=0, chat_template='\n{% set odd = 1 %} \x01\n{{ bos_token }}')"
expect_status 1 tokenize -m odd.gguf --chat --user x -o unwritten
expect_error "the model's chat template is not a known one; it begins '\{% set odd = 1 %\} \?'; .*--template NAME"
expect_status 0 tokenize -m odd.gguf --chat --template chatml --user x
vocabulary empty.gguf "bpe(eos=0, chat_template='')"
expect_status 1 tokenize -m empty.gguf --chat --user x -o unwritten
expect_error "is not a known one; it begins ''"
vocabulary number.gguf "bpe(eos=0, chat_template=7)"
expect_status 1 tokenize -m number.gguf --chat --user x -o unwritten
expect_error "key 'tokenizer.chat_template': expected"
expect_status 1 tokenize -m "$small" --chat --user x -o unwritten
expect_error "no chat template \(key 'tokenizer.chat_template'\): name one with --template"
begin "the order of roles that a template refuses"
gemma="\"{% if x %}{{ raise_exception('roles must alternate') }}{% endif %}<start_of_turn>{{ m['content'] | trim }}\""
vocabulary gemma.gguf "bpe(special=['<start_of_turn>', '<end_of_turn>'], eos=1, chat_template=$gemma)"
turns() { # turns 'u a s' -> messages
    printf '%s' "$1" | tr ' ' '\n' | sed -e 's/^u$/{"role": "user", "content": "x"}/' -e 's/^a$/{"role": "assistant", "content": "y"}/' \
        -e 's/^s$/{"role": "system", "content": "z"}/' | paste -sd, | sed 's/.*/[&]/' >messages
}
for order in 'u u:2' 'a u:1' 's a:2' 'u a a:3' 's u a s:4'; do
    turns "${order%:*}"
    expect_status 1 tokenize -m gemma.gguf --chat -f messages -o unwritten
    expect_error "^tokenize: message ${order#*:}: "
done
turns 'u u s a'
expect_status 0 tokenize --chat -f messages
begin "a default system prompt that a template computes is told of"
granite="\"{{ strftime_now('%B') }}{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' }}\""
vocabulary granite.gguf "bpe(eos=0, chat_template=$granite)"
expect_status 0 tokenize -m granite.gguf --chat --user x
expect_error '^tokenize: the model.s template computes a system prompt'
expect_status 0 tokenize -m granite.gguf --chat --user x --system y
expect_no_error

begin "a default system prompt that cannot be taken out of the template is told of"
pieces="\"{{ '<|start_of_role|>system<|end_of_role|>Today is ' + today + '<|end_of_text|>' }}{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' }}\""
vocabulary pieces.gguf "bpe(eos=0, chat_template=$pieces)"
expect_status 0 tokenize -m pieces.gguf --chat --user x
expect_error '^tokenize: the model.s template computes a system prompt'

begin "a template with half a million system turns is read once"
turns=500000
case $BIN in */sanitize/*) turns=2000 ;; esac # a sanitizer measures each string before it is searched
vocabulary long.gguf "bpe(eos=0, chat_template='<|im_start|>system\n' * $turns + '{{<|im_end|>\n')"
timeout 60 tokenize -m long.gguf --chat --user x --count >/dev/null 2>err || fail "status $? $(brief err)"

begin "BOS exactly once"
first_ids() { tokenize --chat --ids "$@" | head -n 2 | cut -f1 | paste -sd, -; }
special="special=['<s>', '</s>', '[INST]', '[/INST]', '<|im_start|>', '<|im_end|>'], bos=0, eos=1"
inst="\"{{ bos_token }}{{ '[INST] ' + m['content'] + ' [/INST]' }}{{ m['content'] + eos_token }}\""
for add in True False; do
    vocabulary inst.gguf "bpe($special, chat_template=$inst, tokenizer__ggml__add_bos_token=$add)"
    [ "$(first_ids -m inst.gguf --user x)" = 0,2 ] || fail "add_bos_token $add: $(first_ids -m inst.gguf --user x)"
    [ "$(first_ids -m inst.gguf --user x --bos never)" = 2,38 ] || fail "never: $(first_ids -m inst.gguf --user x --bos never)"
    [ "$(first_ids -m inst.gguf --user x --bos always)" = 0,2 ] || fail "always: $(first_ids -m inst.gguf --user x --bos always)"
done
vocabulary bos.gguf "bpe($special, chat_template=$chatml, tokenizer__ggml__add_bos_token=True)"
[ "$(first_ids -m bos.gguf --user x)" = 0,4 ] || fail "wanted by the model: $(first_ids -m bos.gguf --user x)"
vocabulary bos.gguf "bpe($special, chat_template=$chatml, tokenizer__ggml__add_bos_token=False)"
[ "$(first_ids -m bos.gguf --user x | cut -d, -f1)" = 4 ] || fail "wanted by nobody: $(first_ids -m bos.gguf --user x)"
[ "$(first_ids -m bos.gguf --user x --template llama2)" = 0,2 ] || fail "of a template by its name"

begin "SentencePiece: a template's text and the user's are one text, and special tokens are not text"
words="normal=['▁', 'x', '▁x', '[', '▁[', 'I', 'N', 'S', 'T', '[I', 'NS', '[INST', '▁[INST', ']']"
vocabulary spm.gguf "spm($words, chat_template=$inst)"
tokenize -m spm.gguf --chat --ids --user x | cut -f2 | paste -sd'|' >out
expect_output '<s>| [|I|NS|T|]| x| [|/|I|NS|T|]'
vocabulary marks.gguf "spm(user=['<a>', '[T]', '▁▁'], $words, chat_template=$inst)"
tokenize -m marks.gguf --chat --ids --user '<s>[T]  <a></s>' | grep -c 'control\|user-defined' >out
expect_output 2
phi3=$UNROLL_TEST_DATA/vocab/phi-3.gguf
if [ -r "$phi3" ]; then
    begin "Phi-3: white space of the template after a mark goes, the user's stays"
    tokenize -m "$phi3" --chat --user Hello --ids | cut -f1 | paste -sd, >out
    expect_output 1,32010,15043,32007,32001
    tokenize -m "$phi3" --chat --user "$(printf '\n Hello')" --ids | cut -f1 | paste -sd, >out
    expect_output 1,32010,29871,13,15043,32007,32001
    begin "Phi-3: what the user writes is no special token"
    tokenize -m "$phi3" --chat --user '<|end|><|system|></s><s><unk>' --ids | grep -c control >out
    expect_output 4
else
    skip "Phi-3" "there is no $phi3"
fi
unset UNROLL_MODEL

begin "generate --chat: the continuation of the conversation's text"
tokenize --chat --template chatml --system S --user 'The capital of France is' >tokens
prefill tokens | sample | detok >first
generate -n 1 --chat --template chatml --system S --user 'The capital of France is' >out 2>err || fail "$(brief err)"
expect_same first out
printf '[{"role": "system", "content": "S"}, {"role": "user", "content": "The capital of France is"}]' >messages
generate -n 1 --chat --template chatml <messages >out 2>err || fail "$(brief err)"
expect_same first out
generate -n 1 --chat --template chatml -f messages >out 2>err || fail "$(brief err)"
expect_same first out
begin "generate --chat: the end of a turn that is no token is a text to stop at"
mkdir bin
for program in tokenize prefill decode-step detok; do ln -s "$BIN/$program" "bin/$program"; done
cp "$BIN/generate" bin
printf '#!/bin/sh\nfor word; do printf "%%s\\n" "$word"; done >"%s/words"\nexec "%s/sample" "$@"\n' "$PWD" "$BIN" >bin/sample
chmod +x bin/sample
bin/generate -m "$small" -n 1 --chat --template chatml --user x >out 2>err || fail "$(brief err)"
paste -sd, words | grep -q -e '--stop,<|im_end|>$' || fail "found '$(brief words)'"
bin/generate -m "$small" -n 1 --chat --template mistral --user x >out 2>err || fail "$(brief err)"
grep -q -e '--stop' words && fail "found '$(brief words)'"
begin "generate: options that do not go together"
for way in '--user x' '--chat --user x y' '--chat --template chatml --user x --state s'; do
    expect_status 2 generate $way
    expect_error '^generate: '
done
expect_status 1 generate --chat --user x
expect_error 'no chat template'

finish
