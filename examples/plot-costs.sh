#!/bin/sh
# plot-costs.sh [SHEET.svg | SHEET.png [TOKENS]]: draws what a text costs, from real runs on this machine.
#
#   - one pass over a prompt of n tokens, against n passes over one token each: why there is a prefill;
#   - the time from token to token (ITL) over the positions, with median and 95th percentile;
#   - the same without a cache: every step computes all positions again;
#   - the bytes of the cache over the positions.
#
# UNROLL_MODEL chooses another model than the small one; TOKENS (default 400) must fit into its context.  The
# programs are those of $BIN, else those that were built beside this script, else those of PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../build/bin}:$PATH
export PATH
sheet=${1:-costs.svg}
tokens=${2:-400}

if ! command -v gnuplot >/dev/null; then
    echo 'plot-costs.sh: gnuplot is missing; install it with:' >&2
    echo '  sudo apt-get install gnuplot-nox' >&2
    exit 3
fi
case $sheet in
*.svg) terminal='svg size 1100,800 background "white" font "sans,13"' ;;
*.png) terminal='pngcairo size 1100,800 font "sans,11"' ;;
*)
    echo "plot-costs.sh: expected a name that ends in .svg or .png, found '$sheet'" >&2
    exit 2
    ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

# ---- the runs: a text of that many tokens; then prompts that are beginnings of it --------------------

opening='Once upon a time'
generate -n "$tokens" --ignore-eos --trace="$folder/cache.tsv" "$opening" >"$folder/text"
generate -n "$tokens" --ignore-eos --trace="$folder/no-cache.tsv" --no-cache "$opening" >/dev/null

# Lines "positions milliseconds", the best of five runs each.
for part in 1 2 3 4 5 6 7 8; do
    head -c $(($(wc -c <"$folder/text") * part / 8)) "$folder/text" | tokenize >"$folder/tokens"
    for run in 1 2 3 4 5; do
        prefill -v "$folder/tokens" 2>&1 >/dev/null |
            sed -n 's/.*: \([0-9]*\) positions evaluated .* in \([0-9.]*\) ms.*/\1 \2/p'
    done | sort -k 2,2n | head -n 1
done >"$folder/prefill"

# Of the sorted latencies the one that this fraction of them does not exceed.
percentile() {
    tail -n +3 "$folder/cache.tsv" | cut -f 10 | sort -n |
        awk -v part="$1" '{ v[NR] = $1 } END { i = int(part * NR + 0.5); print v[i < 1 ? 1 : i] }'
}
p50=$(percentile 0.50)
p95=$(percentile 0.95)

# ---- the sheet ---------------------------------------------------------------------------------------

# The first line of a trace is the header; the first latency is the time to the first token.
gnuplot <<EOF
set terminal $terminal
set output "$folder/sheet"
set multiplot layout 2,2
set grid
set key left top
set xrange [0:*]
set yrange [0:*]

set title "one pass over n tokens, n passes over one"
set xlabel "tokens n"
set ylabel "milliseconds"
sum = 0
plot "$folder/prefill" using 1:2 with linespoints lw 2 title "prefill of n tokens", \\
     "$folder/cache.tsv" every ::2 using (\$0 + 1):(sum = sum + \$10) with lines lw 2 title "n decode steps"

set title "time from token to token, with a cache"
set xlabel "position"
set yrange [0:2 * $p95]
plot "$folder/cache.tsv" every ::2 using 1:10 with points pt 7 ps 0.3 title "a step", \\
     $p50 with lines lw 2 title "p50: $p50 ms", $p95 with lines lw 2 dt 2 title "p95: $p95 ms"

set title "and without"
set yrange [0:*]
plot "$folder/no-cache.tsv" every ::2 using 1:10 with points pt 7 ps 0.3 title "a step that computes all positions", \\
     "$folder/cache.tsv" every ::2 using 1:10 with lines title "with a cache"

set title "the cache"
set ylabel "kB"
plot "$folder/cache.tsv" every ::1 using 8:(\$9 / 1000) with lines lw 2 title "keys and values of all layers"
EOF
cp "$folder/sheet" "$sheet"
echo "$sheet: prefill of $(tail -n 1 "$folder/prefill" | awk '{ print $1 " tokens " $2 " ms" }'); ITL p50 $p50 ms, p95 $p95 ms"
