#!/bin/sh
# fork.sh: one saved state, five seeds, five processes; and the state is in memory once.
#
# A state that is given as a file is mapped, and the whole pages of its cache are used where they lie.  The
# figures are those of the system, from /proc/*/smaps.  The programs are those of $BIN, else those that were
# built beside this script, else those of PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../build/bin}:$PATH
export PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
folder=$(pwd -P)
seeds='1 2 3 4 5'

# A prompt of some length, so that the cache has whole pages: a story that the model makes up, and a beginning.
generate -n 200 --ignore-eos 'Once upon a time' >story
printf '\n\nOnce upon a time, a' >>story
tokenize -f story | prefill -o state
echo "the state: $(tokenize --count -f story) positions, $(($(wc -c <state) / 1024)) kB"

# Five loops.  Each sample waits at the gate until the memory has been measured.
mkfifo gate
for seed in $seeds; do
    mkfifo "back$seed"
    { decode-step --stream state "back$seed" || : <"back$seed"; } |
        { : <gate && sample -n 40 --temp 0.8 --top-p 0.9 -s "$seed"; } | tee "back$seed" | detok >"text$seed" &
done

# "process Rss Pss" in kB for each process that has the state mapped.
measure() {
    for maps in /proc/[0-9]*/smaps; do
        awk -v state="$folder/state" '
            /^[0-9a-f]+-[0-9a-f]+ / { mine = $NF == state }
            mine && $1 == "Rss:" { rss += $2 }
            mine && $1 == "Pss:" { pss += $2 }
            END { if (rss) { split(FILENAME, part, "/"); print part[3], rss, pss } }' "$maps" 2>/dev/null || :
    done
}
# All have read the whole state when each sees all of it.
whole=$(($(wc -c <state) / 1024))
tries=0
measure >memory
until [ "$(awk -v whole="$whole" '$2 >= whole' memory | wc -l)" -eq 5 ] || [ $tries -eq 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
    measure >memory
done
exec 3<>gate
wait
exec 3>&-

echo
echo 'process   kB of the state that it sees   its share (a page that five see counts a fifth for each)'
awk '{ printf "%-9s %28d %12d\n", $1, $2, $3; rss += $2; pss += $3 }
    END { printf "%-9s %28d %12d\n", "in all", rss, pss }' memory
for seed in $seeds; do
    printf '\nseed %s:%s\n' "$seed" "$(cat "text$seed")"
done
if [ "$(wc -l <memory)" -ne 5 ]; then
    echo "fork.sh: five processes were to have the state mapped, found $(wc -l <memory)" >&2
    exit 1
fi
