# Helpers of the command tests.  A script runs in an empty folder of its own with BIN (the folder of the
# programs) and TOP (the checkout) set, begins with `. "$TOP/tests/cli/lib.sh"` and ends with `finish`:
#
#     begin "what is tested"
#     expect_status 0 "$BIN/peek" file       runs it: output in ./out, messages in ./err
#     expect_output 'exactly this'           what is in ./out (a last newline is added)
#     expect_error 'pattern'                 one line in ./err, and it matches
#
# prints "ok what is tested", or "not ok what is tested: why".

failed=0 case= why=

report() {
    [ -n "$case" ] || return 0
    if [ -n "$why" ]; then
        echo "not ok $case: $why"
        failed=1
    else
        echo "ok $case"
    fi
}

begin() {
    report
    case=$1 why=
}

finish() {
    report
    exit "$failed"
}

skip() {
    report
    echo "skipped: $1: $2"
    case= why=
}

# Only the first reason is told.
fail() {
    [ -n "$why" ] || why=$1
}

# The text of a file in one line, cut short.
brief() {
    head -c 300 "$1" | tr '\n' '|' | cat -v
}

expect_status() {
    wanted=$1
    shift
    "$@" >out 2>err </dev/null
    found=$?
    [ "$found" -eq "$wanted" ] || fail "$1: status $found, expected $wanted ($(brief err))"
}

# The same with a file as standard input.
expect_status_from() {
    input=$1 wanted=$2
    shift 2
    "$@" >out 2>err <"$input"
    found=$?
    [ "$found" -eq "$wanted" ] || fail "$1: status $found, expected $wanted ($(brief err))"
}

expect_output() {
    printf '%s\n' "$1" >want
    cmp -s want out || fail "found '$(brief out)', expected '$(brief want)'"
}

# The same without a newline at the end; backslash escapes as in printf.
expect_bytes() {
    printf '%b' "$1" >want
    cmp -s want out || fail "found '$(brief out)', expected '$(brief want)'"
}

expect_match() {
    grep -Eq -e "$1" out || fail "found '$(brief out)', expected a line that matches '$1'"
}

expect_error() {
    [ "$(wc -l <err)" -eq 1 ] || fail "expected one line of message, found '$(brief err)'"
    grep -Eq -e "$1" err || fail "found message '$(brief err)', expected '$1'"
}

expect_no_error() {
    [ ! -s err ] || fail "found message '$(brief err)', expected none"
}

expect_same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# Makes a record stream: stream FILE 'model()' 'tokens([1])' ...; shows one: shown FILE.
stream() {
    file=$1
    shift
    python3 -S "$TOP/tests/cli/stream.py" "$@" >"$file" || fail "stream.py failed"
}
shown() {
    python3 -S "$TOP/tests/cli/stream.py" --show "$1"
}

# A Python that has a module, among those of the path and the system's; fails where there is none.
python_with() {
    for p in python3 /usr/bin/python3; do
        if "$p" -c "import $1" 2>/dev/null; then
            echo "$p"
            return
        fi
    done
    return 1
}

# A terminal on standard output: on_terminal COMMAND.
on_terminal() {
    script -qec "$1" /dev/null </dev/null
}

# --help, --version, unknown options.
check_help() {
    begin "$1: --help"
    expect_status 0 "$BIN/$1" --help
    expect_no_error
    expect_match "^usage: $1 "
    expect_status 3 sh -c "exec '$BIN/$1' --help >/dev/full"
    begin "$1: --version"
    expect_status 0 "$BIN/$1" --version
    expect_match "^$1 \(unroll\) [0-9]"
    begin "$1: an unknown option"
    expect_status 2 "$BIN/$1" --no-such-option
    expect_error "^$1: unknown or ambiguous option --no-such-option"
    expect_status 2 "$BIN/$1" -Z
    expect_error "^$1: unknown option -Z"
}

# What every program that reads records does with a stream that is none: check_input PROGRAM GOOD_STREAM.
check_input() {
    begin "$1: empty input"
    : >empty
    expect_status_from empty 1 "$BIN/$1"
    expect_error "^$1: standard input: empty input"
    begin "$1: garbage"
    yes garbage | head -c 1000 >garbage
    expect_status 1 "$BIN/$1" garbage
    expect_error "^$1: garbage: record 1 \(damaged\): not a record"
    begin "$1: a missing file"
    expect_status 3 "$BIN/$1" no-such-file
    expect_error "^$1: no-such-file: cannot open: No such file"
    expect_status 2 "$BIN/$1" ''
    expect_error "^$1: expected the name of a file to read, found an empty one"
    begin "$1: a folder"
    expect_status 3 "$BIN/$1" .
    expect_error "^$1: \.: expected a record stream, found a directory"
    begin "$1: input cut off inside a record"
    size=$(wc -c <"$2")
    for n in 1 63 65 $((size - 1)); do
        head -c "$n" "$2" >cut
        expect_status 1 "$BIN/$1" cut
        expect_error "^$1: cut: record [0-9]+ .*cut off"
        expect_status_from cut 1 sh -c "cat | '$BIN/$1'"
        expect_error "^$1: standard input: record [0-9]+ .*cut off"
    done
    begin "$1: a flipped bit in a header and in padding"
    python3 -S -c 'import sys; d = bytearray(open(sys.argv[1], "rb").read()); d[9] ^= 1
open("flipped", "wb").write(d)' "$2"
    expect_status 1 "$BIN/$1" flipped
    expect_error "header is damaged"
    begin "$1: an unknown record type"
    stream unknown 'record(7)'
    expect_status 1 "$BIN/$1" unknown
    expect_error "unknown record type 7"
    begin "$1: END with an error, in a file and through a pipe"
    stream error 'end("error", text=b"the stage before fell over")'
    expect_status 1 "$BIN/$1" error
    expect_error "^$1: error: record 1 \(END\): sequence 0 ended with an error: the stage before fell over"
    expect_status_from error 1 sh -c "cat | '$BIN/$1'"
    expect_no_error
}

# check_output PROGRAM ARGUMENTS...: a full disk, and a reader that is gone.
check_output() {
    name=$1
    shift
    begin "$name: /dev/full"
    expect_status 3 sh -c 'exec "$@" >/dev/full' - "$BIN/$name" "$@"
    expect_error "^$name: .*cannot write.*: No space left on device"
    begin "$name: a closed reader ends it quietly"
    { sleep 0.1; "$BIN/$name" "$@" 2>err; echo $? >status; } | :
    [ "$(cat status)" = 141 ] || fail "status $(cat status), expected 141"
    expect_no_error
}

# For the writer of a FIFO: keeps it open until a file is there, at most two minutes; then the file gave-up is there, too.
hold_until() {
    rm -f gave-up
    n=0
    while [ ! -e "$1" ] && [ $n -lt 1200 ]; do sleep 0.1; n=$((n + 1)); done
    [ -e "$1" ] || : >gave-up
}
