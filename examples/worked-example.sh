#!/bin/sh
# worked-example.sh: one prefill and three decode steps, each with what it selected from and what it added to the
# cache; then the same by generate, and what a limit on the number of tokens does.
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
prompt='The capital of France is'

# "5 positions, 5120 bytes": the cache of a state.
cache() {
    peek "$1" | sed -n 's/^sequence 0: .*; \([0-9]* position\)s* cached: .* \([0-9]*\) in all$/\1s, \2 bytes/p'
}
# The candidates: what peek says of the last LOGITS of a state.
candidates() {
    peek --top 4 "$1" | awk '/^record/ { logits = /LOGITS/; next } /^ / && logits'
}

echo "The prompt: $prompt"
echo
echo '      id  token'
tokenize --ids "$prompt" | awk -F '\t' '{ printf "%8s  \"%s\"\n", $1, $2 }'
tokenize "$prompt" | prefill >state
printf '\nprefill: one pass over all of them.  The cache before: nothing; after: %s.\n' "$(cache state)"

step=1
reason=
until [ "$reason" ] || [ $step -gt 20 ]; do
    printf '\nStep %s.  The candidates, with logit and probability:\n\n' $step
    candidates state
    sample state >token
    decode-step state token >next
    printf '\nsample: takes the most probable one,%s\n' \
        "$(peek token | sed -n 's/^ *[0-9]* *\([0-9]*\)  \(".*"\).*/ \2 (id \1)/p')"
    printf 'decode-step: one pass over it.  The cache before: %s; after: %s.\n' "$(cache state)" "$(cache next)"
    reason=$(peek token | sed -n 's/.*: END,.*/end/p')
    cat token >>answer
    mv next state
    step=$((step + 1))
done
printf '\nThat token ends the text, and the loop with it; the answer is "%s".\n' "$(detok answer)"
echo 'The last pass was for nothing: nobody reads the logits after it.'

# What generate says with -v of the end and of the cache; the text goes to a file.
told() {
    generate -v "$@" "$prompt" 2>&1 >text | sed -n -e 's/^generate: \(.*selected, finish reason.*\)/\1/p' \
        -e 's/^generate: cache: \(.*\)/in the cache: \1/p'
}
printf '\ngenerate does the same, but spares that pass:\n\n'
told | sed 's/^/  /'
printf '  the text: "%s"\n' "$(cat text)"
for limit in 2 1; do
    printf '\nWith -n %s the end is that of the limit, wherever the text is then:\n\n' $limit
    told -n $limit | sed 's/^/  /'
    printf '  the text: "%s"\n' "$(cat text)"
done
echo
echo 'A limit counts; it does not aim at an end.'
