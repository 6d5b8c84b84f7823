#!/bin/sh
# by-hand.sh: the loop by hand.  Every arrow between two programs is a file, which stays and can be looked at.
#
# The programs are those of $BIN, else those that were built beside this script, else those of PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../build/bin}:$PATH
export PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

# Shows a command and runs it.
run() {
    printf '\n$ %s\n' "$1"
    eval "$1"
}

echo 'A prompt becomes tokens, and these a state: five positions in the cache, and the logits after them.'
run "tokenize 'The capital of France is' | prefill > s0"
echo
echo 'One token is selected from the logits, and evaluated: six positions.'
run 'sample s0 > t1'
run 'decode-step s0 t1 > s1'
echo
echo 'And the next one.'
run 'sample s1 > t2'
run 'detok t1 t2'
echo
run 'peek --top 3 s1'
