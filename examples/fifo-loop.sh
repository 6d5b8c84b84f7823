#!/bin/sh
# fifo-loop.sh [PROMPT]: the loop, closed by a FIFO: the answers of sample go back to decode-step.
#
# unroll(7) explains why it does not stand still, and what happens when a stage dies.  The programs are those of
# $BIN, else those that were built beside this script, else those of PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../build/bin}:$PATH
export PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
prompt=${1-The capital of France is}
back=$folder/back

mkfifo "$back"
{ if tokenize -- "$prompt" | prefill; then cat "$back"; else : <"$back"; fi; } |
    decode-step --stream | sample -n 50 | tee "$back" | detok
echo
