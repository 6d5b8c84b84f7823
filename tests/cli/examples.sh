# The examples run, and print what they promise; so do the completions.
. "$TOP/tests/cli/lib.sh"
export BIN
examples=$TOP/examples
unset UNROLL_MODEL UNROLL_CPU

# expect_text FILE TEXT...: these stand in the file, in this order.
expect_text() {
    python3 - "$@" <<'EOF' || fail "$(cat missing)"
import sys
rest = open(sys.argv[1], encoding="utf-8", errors="replace").read()
for text in sys.argv[2:]:
    found = rest.find(text)
    if found < 0:
        open("missing", "w").write(f"'{text}' is not in the output, or not where it should be")
        sys.exit(1)
    rest = rest[found + len(text):]
EOF
}

tested=
tests() {
    tested="$tested $1"
    begin "$1${2:+: $2}"
}

tests by-hand.sh
expect_status 0 sh "$examples/by-hand.sh"
expect_no_error
expect_text out 'prefill > s0' 'sample s0 > t1' 'decode-step s0 t1 > s1' 'sample s1 > t2' ' Paris.' \
    'record 1: MODEL' '6 positions cached'

tests fifo-loop.sh
expect_status 0 timeout 300 sh "$examples/fifo-loop.sh"
expect_no_error
expect_output ' Paris.'
begin "fifo-loop.sh: another prompt, as by generate"
expect_status 0 timeout 300 sh "$examples/fifo-loop.sh" 'Once upon a time'
cp out loop
expect_status 0 sh -c '"$BIN/generate" -n 50 "Once upon a time"; echo'
expect_same loop out
begin "fifo-loop.sh: without a model all end, and it fails"
UNROLL_MODEL=/no/such/model timeout 300 sh "$examples/fifo-loop.sh" >out 2>err </dev/null
found=$?
[ $found -ne 0 ] && [ $found -ne 124 ] || fail "status $found"

tests fork.sh
expect_status 0 timeout 300 sh "$examples/fork.sh"
expect_no_error
cp out first
awk '/^the state:/ { kb = $5 } /^in all/ { seen = $3; share = $4 }
    END { exit !(kb > 0 && seen >= 4.5 * kb && share <= 1.5 * kb) }' first ||
    fail "the state is not in memory once: $(grep -E '^the state|^in all' first | tr '\n' '|')"
[ "$(grep '^seed' first | sort -u -t : -k 2 | wc -l)" -ge 4 ] || fail "the seeds give the same text"
begin "fork.sh: the same again"
expect_status 0 timeout 300 sh "$examples/fork.sh"
grep '^seed' first >want
grep '^seed' out >got
expect_same want got

tests worked-example.sh
expect_status 0 sh "$examples/worked-example.sh"
expect_no_error
expect_text out 'nothing; after: 5 positions' 'Step 1.' '" Paris"' '5 positions' 'after: 6 positions' 'Step 2.' \
    'after: 7 positions' 'Step 3.' 'after: 8 positions' 'the answer is " Paris."' \
    '3 selected, finish reason: eos' '7 positions' '2 selected, finish reason: length' 'the text: " Paris."' \
    '1 selected, finish reason: length' 'the text: " Paris"'

if command -v gnuplot >/dev/null; then
    tests plot-costs.sh
    expect_status 0 timeout 300 sh "$examples/plot-costs.sh" costs.svg 60
    expect_match '^costs.svg: prefill of [0-9]+ tokens [0-9.]+ ms; ITL p50 [0-9.]+ ms'
    grep -q '</svg>' costs.svg || fail "costs.svg is not a whole picture"
    begin "plot-costs.sh: a name it cannot draw to"
    expect_status 2 sh "$examples/plot-costs.sh" costs.txt
else
    tests plot-costs.sh "says how to get gnuplot"
    expect_status 3 sh "$examples/plot-costs.sh"
    grep -q 'apt-get install gnuplot' err || fail "found '$(brief err)'"
    skip "plot-costs.sh" "there is no gnuplot"
fi

tests mpi-prefill.sh
if command -v mpirun >/dev/null && [ -x "$BIN/../libexec/unroll/prefill-mpi" ]; then
    expect_status 0 env ASAN_OPTIONS=detect_leaks=0 timeout 300 sh "$examples/mpi-prefill.sh" 3
    expect_match '^3 ranks and one process: the same [0-9]+ kB$'
    grep -q 'rank 2 on .* positions; compute' err || fail "found '$(brief err)'"
else
    skip "mpi-prefill.sh" "there is no MPI"
fi

begin "plan-prefill"
expect_status 0 "$examples/plan-prefill" --model llama-3.2-1b --positions 4096 --ranks 1,2 --network 'LAN=1e8,1e-4'
expect_no_error
expect_text out 'llama-3.2-1b: 4096 positions, cache 0.1 GiB' 'LAN: 1e+08 B/s' '    1 ' '100.0 %' '    2 '
expect_status 2 "$examples/plan-prefill" --model none

for script in "$examples"/*.sh; do
    name=$(basename "$script")
    case " $tested " in
    *" $name "*) ;;
    *)
        begin "$name"
        fail "there is no test of it"
        ;;
    esac
done

# ---- completions -------------------------------------------------------------------------------------

programs=$(cd "$TOP/cmd" && ls | sed -n 's/\.c$//p')
options_of() {
    "$BIN/$1" --help | grep -o -E '^  (-., |    )--[a-z0-9-]+' | grep -o -e '--.*' | sort
}
begin "completions are for all programs"
for program in $programs; do
    grep -q "^complete .*[{,]$program[,}]" "$examples/completions/unroll.bash" || fail "bash: not for $program"
    grep -q "^#compdef.* $program .*unroll-$program" "$examples/completions/_unroll" || fail "zsh: not for $program"
done

begin "completion for bash"
cat >complete.bash <<'EOF'
. "$TOP/examples/completions/unroll.bash"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_unroll "$1"
printf '%s\n' "${COMPREPLY[@]}"
EOF
complete() {
    PATH=$BIN:$PATH bash complete.bash "$@" 2>err | sort
    [ ! -s err ] || fail "$(brief err)"
}
export TOP
touch model.gguf text.txt
for program in $programs; do
    options_of $program >want
    complete $program -- >got
    cmp -s want got || fail "$program: offers '$(brief got)', --help has '$(brief want)'"
done
[ "$(complete prefill --logits '')" = "$(printf 'all\nlast')" ] || fail "prefill --logits"
[ "$(complete generate --bos = au)" = auto ] || fail "generate --bos="
[ "$(complete generate -m mo)" = model.gguf ] || fail "generate -m"
[ -z "$(complete generate -m text)" ] || fail "generate -m offers what is no model"
[ "$(complete generate -f te)" = text.txt ] || fail "generate -f"
[ -z "$(complete generate --temp '')" ] || fail "generate --temp"

if command -v zsh >/dev/null; then
    begin "completion for zsh"
    sed '/^_unroll "\$@"/d' "$examples/completions/_unroll" >specs.zsh
    echo '_unroll_specs "$("$BIN/$1" --help)"; print -rl -- $specs' >>specs.zsh
    for program in $programs; do
        options_of $program >want
        zsh -f -o extendedglob specs.zsh $program >specs 2>err || fail "$(brief err)"
        [ ! -s err ] || fail "$(brief err)"
        sed -n 's/^\(([^)]*)\)*\**\(--[a-z0-9-]*[a-z0-9]\).*/\2/p' specs | sort >got
        cmp -s want got || fail "$program: offers '$(brief got)', --help has '$(brief want)'"
    done
else
    skip "completion for zsh" "there is no zsh"
fi
finish
