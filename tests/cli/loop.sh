# The loop: by hand, through a FIFO, and closed by generate, all of one text; and what becomes of it when a
# stage fails.
. "$TOP/tests/cli/lib.sh"
stories=$UNROLL_TEST_DATA/stories/stories260K.gguf

# loop OPTION_OF_SAMPLE... : the loop of unroll(7) on $prompt.
fifo_loop() {
    rm -f back
    mkfifo back
    { if tokenize -- "$prompt" | prefill; then cat back; else : <back; fi; } |
        decode-step --stream | sample "$@" | tee back | detok
}
# rounds N: the same by hand.
rounds() {
    tokenize -- "$prompt" | prefill >state || return
    : >chosen
    i=0
    while [ $i -lt "$1" ]; do
        sample state >token || return
        cat token >>chosen
        decode-step state token >next || return
        mv next state
        i=$((i + 1))
    done
    detok chosen
}

prompt='Once upon a time'
if [ -r "$stories" ]; then
    export UNROLL_MODEL="$stories"
    printf '%s' "$(cat "$UNROLL_TEST_DATA/stories/expected.txt")" >expected
    begin "generate prints the published story"
    expect_status 0 generate -m "$stories" -n 252 --temp 0 --echo 'Once upon a time'
    expect_no_error
    expect_same out expected
    begin "the FIFO loop prints it"
    { printf '%s' "$prompt"; fifo_loop -n 252; } >out
    expect_same out expected
    begin "252 rounds by hand print it"
    { printf '%s' "$prompt"; rounds 252; } >out
    expect_same out expected
    begin "a story of this seed is the same in the loop, by hand, and in generate, whatever the threads"
    options='--temp 0.9 --top-p 0.95 -s 42'
    generate $options -n 20 "$prompt" >one
    fifo_loop $options -n 20 >two
    generate $options -n 20 -t 1 -b 3 "$prompt" >three
    expect_same one two
    expect_same one three
    generate $options -s 43 -n 20 "$prompt" >four
    ! cmp -s one four || fail "two seeds, one text"
    begin "without EOS the context runs full, to its last position"
    expect_status 0 sh -c "generate --ignore-eos -v 'x' >text"
    tail -5 err | grep -q 'finish reason: context' || fail "found $(brief err)"
    unset UNROLL_MODEL
else
    skip "the published story" "no ../shared/data"
    echo "skipped: no ../shared/data"
fi

prompt='The capital of France is'
begin "loop, rounds and generate agree on the small model"
generate "$prompt" >one
fifo_loop >two
rounds 3 >three
expect_same one two
expect_same one three
expect_status 0 cat one
expect_bytes ' Paris.'

begin "every stage of the FIFO loop ends with status 0"
rm -f back && mkfifo back
bash -c '{ if tokenize -- "$0" | prefill; then cat back; else : <back; fi; } |
    decode-step --stream | sample -n 50 | tee back | detok; echo "${PIPESTATUS[@]}" >statuses' "$prompt" >out
[ "$(cat statuses)" = '0 0 0 0 0' ] || fail "$(brief statuses)"
expect_bytes ' Paris.'

begin "what is written in one loop is what two halves give"
generate -n 1 --save half "$prompt" >one
: | generate --state half >>one
expect_same one two

begin "a stop string that began before the saved state"
generate -n 1 --save half --stop 'aris.' "$prompt" >/dev/null
expect_status_from /dev/null 0 generate --state half --stop 'aris.'
expect_bytes ''

# ---- a text appended to a state --------------------------------------------------------------------
begin "a text appended to a state, by hand and by generate, goes on as a fresh run over the whole"
tokenize 'The capital of France is Paris. The capital' | prefill >whole
tokenize 'The capital of France is Paris.' | prefill >first
tokenize --append ' The capital' >more
prefill first more >joined
expect_same whole joined
cat first more | prefill >joined
expect_same whole joined
cat first more | decode-step >joined
expect_same whole joined
generate -n 4 'The capital of France is Paris. The capital' >one
generate -n 4 --state first ' The capital' >two
expect_same one two
generate -n 4 --echo --state first ' The capital' >out
printf 'The capital of France is Paris. The capital' | cat - one >three
expect_same out three

begin "a second text from position 0 is refused, and the message names --append"
tokenize ' The capital' >wrong
expect_status 1 prefill first wrong
expect_error 'prefill: wrong: record 1 \(TOKENS\): token .*--append'

begin "reuse: the longest common prefix is taken, and the state is that of a fresh run"
tokenize 'The capital of France is Rome' | prefill --reuse whole -v >reused 2>log
tokenize 'The capital of France is Rome' | prefill >fresh
expect_same reused fresh
grep -q '5 of 6 positions reused' log || fail "found $(brief log)"
tokenize 'The capital of France is Paris.' | prefill --reuse whole >reused
expect_same reused first
generate -n 3 'The capital of France is' >one
generate -n 3 --reuse whole 'The capital of France is' >two
expect_same one two

# ---- finish reasons --------------------------------------------------------------------------------
reason() {
    sed -n 's/.*finish reason: //p' err
}
begin "finish reasons: eos, length, stop, context"
expect_status 0 generate -v "$prompt"
[ "$(reason)" = eos ] || fail "eos: found $(reason)"
expect_status 0 generate -v -n 2 "$prompt"
[ "$(reason)" = length ] || fail "length: found $(reason)"
expect_bytes ' Paris.'
expect_status 0 generate -v -n 1 "$prompt"
expect_bytes ' Paris'
expect_status 0 generate -v -n 0 "$prompt"
expect_bytes ''
expect_status 0 generate -v --stop ris "$prompt"
[ "$(reason)" = stop ] || fail "stop: found $(reason)"
expect_bytes ' Pa'
expect_status 0 generate -v -c 6 "$prompt"
[ "$(reason)" = context ] || fail "context: found $(reason)"
expect_bytes ' Paris'
expect_status 0 generate -v -c 5 "$prompt"
[ "$(reason)" = context ] || fail "full context: found $(reason)"
expect_bytes ''

begin "a prompt that is one token too long is an error with both numbers"
expect_status 1 generate -c 4 "$prompt"
expect_error '5 tokens, the context is 4'
begin "an empty prompt without BOS is an error"
expect_status 1 generate ''
expect_error 'prefill: .*holds no token'
: >empty
expect_status 1 generate -f empty
begin "prompts of odd bytes"
printf 'a\0b\377\376\n' >odd
expect_status 0 generate -n 0 --echo -f odd
expect_same out odd
expect_status_from odd 0 generate -n 0 --echo
expect_same out odd
expect_status_from odd 0 generate -n 0 --echo -
expect_same out odd
begin "while read goes on: standard input belongs to the loop of the shell"
printf 'The capital of Spain is\nThe capital of Italy is\n' >list
while read -r line; do generate -n 1 "$line"; done <list >out
[ "$(wc -w <out)" -eq 2 ] || fail "found $(brief out)"

# ---- failures --------------------------------------------------------------------------------------
# Programs of our own in the place of the real ones: each stage in turn fails at its start, and is killed in
# the middle.
gone() { # within 2 seconds no process of this folder is left
    n=0
    while pgrep -f "$PWD/bin/" >/dev/null && [ $n -lt 20 ]; do
        sleep 0.1
        n=$((n + 1))
    done
    ! pgrep -f "$PWD/bin/" >/dev/null || fail "processes are left: $(pgrep -af "$PWD/bin/" | head -3 | tr '\n' '|')"
}
mkdir bin
for stage in tokenize prefill decode-step sample detok; do
    rm -f bin/*
    for p in tokenize prefill decode-step sample detok generate unroll-small.gguf; do cp -l "$BIN/$p" bin/ 2>/dev/null || cp "$BIN/$p" bin/; done
    rm bin/$stage
    printf '#!/bin/sh\necho "%s: broken at the start" >&2\nexit 3\n' $stage >bin/$stage
    chmod +x bin/$stage
    begin "generate: $stage fails at its start"
    expect_status 3 bin/generate --ignore-eos "$prompt"
    expect_error "$stage: broken at the start"
    gone
    rm bin/$stage
    begin "generate: $stage is missing"
    expect_status 3 bin/generate --ignore-eos "$prompt"
    expect_error "$stage: cannot run"
    gone
    case $stage in tokenize | prefill) continue ;; esac
    cp "$BIN/$stage" bin/$stage
    begin "generate: $stage is killed in the middle"
    rm -f out
    bin/generate --ignore-eos --no-cache "$prompt" >out 2>err &
    n=0
    while [ ! -s out ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
    pkill -KILL -f "$PWD/bin/$stage"
    wait $!
    status=$?
    [ $status -eq 3 ] || fail "status $status"
    expect_error "generate: $stage was killed by signal 9"
    gone
done
cp "$BIN/tokenize" "$BIN/prefill" bin/ 2>/dev/null
for signal in INT TERM HUP; do
    begin "generate: SIG$signal ends all, by that signal, and leaves no file"
    mkdir -p clean
    rm -f out
    (cd clean && exec setsid env --default-signal=INT ../bin/generate --ignore-eos --no-cache --save state "$prompt" >../out 2>../err) &
    n=0
    while [ ! -s out ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
    pkill -$signal -f "^../bin/generate --ignore" || fail "not running"
    wait $!
    gone
    [ -z "$(ls clean)" ] || fail "left: $(ls clean)"
    [ ! -s err ] || fail "said $(brief err)"
done
begin "generate: a closed reader ends it quietly"
generate --ignore-eos "$prompt" 2>err | head -c 5 >out
expect_no_error
begin "generate: a full disk"
expect_status 3 sh -c 'generate "The capital of France is" >/dev/full'
expect_error 'detok: .*No space left'
expect_status 3 generate --save /no/such/folder/state "$prompt"
expect_error 'decode-step: .*folder/state'

# In the hand-made loop every stage ends, not with status 0, whatever dies.
for victim in decode-step sample tee detok; do
    begin "FIFO loop: $victim is killed in the middle"
    rm -f back statuses text && mkfifo back
    setsid bash -c '{ if tokenize -- "$0" | prefill; then cat back; else : <back; fi; } |
        decode-step --stream --no-cache | sample --ignore-eos | tee back | detok >text
        echo "${PIPESTATUS[@]}" >statuses' "$prompt" 2>err &
    leader=$!
    n=0
    while [ ! -s text ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
    pkill -KILL -s $leader -x $victim || fail "not running"
    n=0
    while [ "$(pgrep -s $leader | wc -l)" -gt 0 ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
    [ "$(pgrep -s $leader | wc -l)" -eq 0 ] || { fail "left: $(pgrep -a -s $leader | tr '\n' '|')"; pkill -KILL -s $leader; }
    wait $leader
    case " $(cat statuses) " in
    *" 137 "*) ;;
    *) fail "statuses $(cat statuses), $(brief err)" ;;
    esac
    [ "$(awk '{n = 0; for (i = 2; i <= NF; i++) n += $i != 0; print n}' statuses)" -ge 2 ] || fail "statuses $(cat statuses), $(brief err)"
done
for broken in tokenize prefill; do
    begin "FIFO loop: $broken fails at its start"
    rm -f back status && mkfifo back
    mkdir -p sick
    printf '#!/bin/sh\nexit 1\n' >sick/$broken
    chmod +x sick/$broken
    PATH=$PWD/sick:$PATH timeout 300 sh -c '{ if tokenize -- "$0" | prefill; then cat back; else : <back; fi; } |
        decode-step --stream | sample --ignore-eos | tee back | detok' "$prompt" >out 2>err
    [ $? -eq 1 ] || fail "status is not 1"
    [ -s err ] || fail "no message"
    rm sick/$broken
done

# ---- options ---------------------------------------------------------------------------------------
for p in generate prefill decode-step; do
    check_help $p
done
begin "generate: a wrong option or value fails before anything starts"
expect_status 2 generate --temp x "$prompt"
expect_error '^generate: --temp: expected a number'
expect_status 2 generate --top-p 2 "$prompt"
expect_status 2 generate -n 1.5 "$prompt"
expect_status 2 generate -p a b
begin "generate: a text on the command line is taken as it is"
expect_status 0 generate -n 0 --echo -- --temp
expect_bytes '--temp'
expect_status 0 generate -n 0 --echo -p 'a  b
'
expect_bytes 'a  b\n'
begin "generate: standard input and output are not states too; descriptors of ours stay ours"
for option in --state --save --reuse -m; do
    expect_status 2 generate $option - x
    expect_error "expected the name of a file, found '-'"
done
generate --save /dev/fd/3 -n 1 "$prompt" 3>saved >out
expect_bytes ' Paris'
generate -n 1 --save saved2 "$prompt" >out
expect_same saved saved2
begin "generate: by a link under another name, and installed with a prefix"
ln -s "$BIN/generate" my-own-name
expect_status 0 ./my-own-name -n 1 "$prompt"
mkdir prefixed
for p in tokenize prefill decode-step sample detok generate; do cp "$BIN/$p" prefixed/u_$p; done
expect_status 0 prefixed/u_generate -m "$TOP/examples/model/unroll-small.gguf" -n 1 "$prompt"
expect_bytes ' Paris'
begin "generate: what cannot be said on standard error takes nothing from the text"
generate -v "$prompt" >out 2>/dev/full
expect_bytes ' Paris.'
expect_status 3 generate --trace=/dev/full "$prompt"
expect_error 'No space left'
begin "generate: the terminal is not waited for"
on_terminal "$BIN/generate" >out
grep -q 'no text' out || fail "found $(brief out)"
begin "generate --trace"
expect_status 0 generate --trace "$prompt"
expect_bytes ' Paris.'
grep -Eq '^ +5 .* Paris .* 5 ' err || fail "found $(brief err)"
[ "$(wc -l <err)" -eq 4 ] || fail "found $(wc -l <err) lines"
expect_status 0 generate --trace=steps.tsv "$prompt"
[ "$(awk -F'\t' 'NF != 10' steps.tsv | wc -l)" -eq 0 ] || fail "columns of steps.tsv"
[ "$(wc -l <steps.tsv)" -eq 4 ] || fail "lines of steps.tsv"
begin "generate --no-cache gives the same text"
generate --no-cache -n 20 'Once upon a time' >one
generate -n 20 'Once upon a time' >two
expect_same one two
begin "generate --raw, --special, --bos, --pre, --cache-type, -b, -t are handed on"
expect_status 0 generate --raw -b 2 -t 1 --cache-type f32 --bos never --pre gpt-2 "$prompt"
expect_bytes ' Paris.'
expect_status 2 generate --pre no-such "$prompt"
expect_status 0 generate -n 0 -v --special '<|endoftext|>The capital'
grep -q '3 prompt tokens' err || fail "special: $(brief err)"
finish
