# The manual: every program has a page with the options of its --help and no others; every page is well-formed;
# the commands of every page run, and print what the page says; the filters of unroll-stream(5) work.
#
#     sh man.sh [PAGE ...]              only these pages
#     UPDATE=yes sh man.sh [PAGE ...]   writes what the commands print into the pages instead
. "$TOP/tests/cli/lib.sh"
PATH=$BIN:$PATH LC_ALL=C.UTF-8
export PATH LC_ALL
unset UNROLL_MODEL UNROLL_CPU

[ $# -gt 0 ] || set -- "$TOP"/man/man[1-9]/*.[1-9]

# ---- options -----------------------------------------------------------------------------------------

# A line for each option: its letter or "-", its name, and "argument" where it has one.
options_of_help() {
    awk '/^  -.,? |^      --/ {
        letter = substr($0, 3, 1) == "-" ? substr($0, 4, 1) : "-"
        sub(/^ *(-., )?--/, "")
        name = $0
        sub(/[^a-z0-9-].*/, "", name)
        rest = substr($0, length(name) + 1)
        print letter, name, rest ~ /^ [^ ]|^\[=/ ? "argument" : ""
    }' "$1" | sort
}
options_of_page() {
    awk '/^\.It Fl / {
        letter = $3 ~ /^-/ ? "-" : $3
        match($0, /Fl -[a-z0-9-]+/)
        print letter, substr($0, RSTART + 4, RLENGTH - 4), / (Ar|Cm) / ? "argument" : ""
    }' "$1" | sort
}

check_options() {
    begin "$1: the manual has every option of --help, and no other"
    page=$TOP/man/man1/$1.1
    if [ ! -f "$page" ]; then
        fail "there is no man1/$1.1"
        return
    fi
    expect_status 0 "$BIN/$1" --help
    options_of_help out >options
    [ -s options ] || fail "no options found in --help"
    options_of_page "$page" >documented
    diff options documented >difference || fail "--help and the page differ: $(brief difference)"
}

# ---- the form of the pages ---------------------------------------------------------------------------

check_form() {
    if ! command -v mandoc >/dev/null; then
        skip "$name: well-formed" "there is no mandoc"
        return
    fi
    begin "$name: well-formed"
    mandoc -Tlint -Wwarning "$1" >lint 2>&1 || fail "$(brief lint)"
    if command -v groff >/dev/null; then # an author or a title that begins with the name of a macro is lost
        begin "$name: well-formed to groff"
        groff -mandoc -Tutf8 -ww "$1" 2>lint >/dev/null
        [ -s lint ] && fail "$(brief lint)"
    fi
    begin "$name: what it refers to is there"
    for other in $(sed -n 's/^\.Xr \([a-z-]*\) \([1-9]\).*/\1.\2/p' "$1" | sort -u); do
        case $other in
        unroll* | *.1) [ -f "$TOP/man/man${other##*.}/$other" ] || fail "there is no $other" ;;
        esac
    done
}

# ---- the commands ------------------------------------------------------------------------------------

# The kernels that compute depend on the machine.  With numbers that vary, every number is N and columns do not
# count.  The last line gets a newline where it has none.
normal() {
    sed -e 's/with the [a-z0-9]* kernels/with the K kernels/' -e '$a\' "$1" |
        if [ "$2" ]; then
            sed -e 's/[0-9][0-9.]*/N/g' -e 's/[[:space:]][[:space:]]*/ /g'
        else
            cat
        fi
}

# What a command printed, and what the page says it prints, into ./got and ./want: true when they are the same.
same_output() {
    vary=$([ -f "$1.vary" ] && echo yes)
    normal "$1.want" "$vary" >want
    normal "$1.got" "$vary" >got
    cmp -s want got
}

check_command() {
    begin "$name: $(head -n 1 "$1.command")"
    if [ ! -f "$1.status" ]; then
        fail "did not end in time"
        return
    fi
    read -r found <"$1.status"
    [ "$found" = 0 ] || fail "status $found ($(brief "$1.got"))"
    [ -f "$1.want" ] || return 0
    same_output "$1" || fail "printed '$(brief got)', the page has '$(brief want)' (UPDATE=yes writes it anew)"
}

# All commands of a page in one shell, in a folder of their own.
run_page() {
    steps=$PWD/steps.$name
    mkdir -p "$steps" "run.$name"
    cd "run.$name" || exit
    count=$(awk -f "$TOP/tests/cli/page.awk" -v mode=list -v directory="$steps" "$1")
    {
        for n in $(seq "$count"); do
            echo "{"
            cat "$steps/$n.command"
            echo "} >'$steps/$n.got' 2>&1"
            echo "echo \$? >'$steps/$n.status'"
        done
    } >"$steps/script"
    timeout 300 sh "$steps/script" </dev/null
    cd ..
    if [ "${UPDATE:-}" ]; then
        for n in $(seq "$count"); do
            [ ! -f "$steps/$n.want" ] || ! same_output "$steps/$n" || : >"$steps/$n.same"
        done
        awk -f "$TOP/tests/cli/page.awk" -v mode=update -v directory="$steps" "$1" >"$steps/page"
        cmp -s "$steps/page" "$1" || cat "$steps/page" >"$1"
    fi
    for n in $(seq "$count"); do
        check_command "$steps/$n"
    done
}

# ---- the filters of unroll-stream(5) -----------------------------------------------------------------

# A filter that adds 0 changes nothing, and refuses what a reader must refuse: check_filter NAME COMMAND.
check_filter() {
    begin "$1: passes on everything but CACHE"
    tokenize 'The capital of France is' | prefill --compress --logits all >state
    tokenize 'The capital of France is' | prefill --logits all >plain
    stream extra 'record(200, b"hello", flags=0)' 'tokens([1], position=0)' 'tokens([])' 'end("eos", token=1)'
    for input in state plain extra; do
        $2 1 0 <$input >passed 2>err || fail "status $? with $input: $(brief err)"
        shown $input | grep -v '^CACHE' >want
        shown passed | grep -v '^RAW' >got
        cmp -s want got || fail "of $input passed on '$(brief got)', expected '$(brief want)'"
    done
    $2 1 0 <plain | $2 1 0 >passed
    $2 1 0 <state | cmp -s - passed || fail "deflated logits and plain ones come out different"
    begin "$1: marks logits that are not the model's, once"
    shown passed | sed -n 's/^\(RAW\|LOGITS\).*\(position=[0-9]*\) count=\(0\|2048\)$/\1 \2/p' >got
    for at in 0 1 2 3 4; do
        printf 'RAW position=%s\nLOGITS position=%s\n' $at $at
    done >want
    cmp -s want got || fail "marked '$(brief got)'"
    sample --logprobs 0 passed | shown /dev/stdin | grep -q 'raw=none' || fail "sample takes them for the model's"
    begin "$1: refuses damage"
    size=$(wc -c <plain)
    for at in 0 4 5 6 9 50 62 64 150 170 191 $((size - 1)); do
        flip plain $at
        $2 1 0 <flipped >/dev/null 2>err && fail "took a stream with byte $at changed"
        [ -s err ] || fail "said nothing about byte $at"
    done
    for length in 0 10 100 $((size - 1)); do
        head -c "$length" plain >cut
        $2 1 0 <cut >/dev/null 2>err && fail "took a stream of $length of $size bytes"
    done
}

flip() {
    python3 -c 'import sys; d = bytearray(open(sys.argv[1], "rb").read()); d[int(sys.argv[2])] ^= 0x40
open("flipped", "wb").write(d)' "$1" "$2"
}

check_filters() {
    begin "bias.c: compiles without a warning"
    cc -std=c11 -Wall -Wextra -Werror -O2 -o bias "run.$name/bias.c" -lz 2>err || fail "$(brief err)"
    check_filter bias.c ./bias
    check_filter bias.py "python3 run.$name/bias.py"
}

for page; do
    name=$(basename "$page")
    check_form "$page"
    run_page "$page"
    [ "$name" != unroll-stream.5 ] || check_filters
done
for program in "$BIN"/*; do
    [ ! -x "$program" ] || [ -d "$program" ] || check_options "$(basename "$program")"
done
finish
