#!/bin/sh
# make.sh [BUILD_DIRECTORY]: makes unroll-small.gguf from nothing.
#
# Corpus, tokenizer, training, export, check; everything follows from the
# seed.  Files on the way go to the build directory (default build/model).
# It takes about a quarter of an hour on two idle cores, and longer on a
# processor without bfloat16 arithmetic.
#
# PYTHON is the interpreter that has PyTorch (default /usr/bin/python3), and
# TOKENS the number of tokens to train on.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build/model}
python=${PYTHON:-/usr/bin/python3}
seed=1

# Nothing but the model is written beside the sources.
export PYTHONDONTWRITEBYTECODE=1

if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
    echo "make.sh: $python needs numpy and PyTorch; on Debian:" >&2
    echo "  apt-get install python3-torch python3-numpy libopenblas0-pthread" >&2
    exit 3
fi
# Debian's PyTorch calls whatever BLAS is installed, and the default one is
# many times slower.
if command -v dpkg-query >/dev/null &&
    ! dpkg-query -W libopenblas0-pthread >/dev/null 2>&1; then
    echo "make.sh: training is slow without libopenblas0-pthread" >&2
fi

mkdir -p "$build"
echo "corpus"
"$python" "$here/corpus.py" --seed "$seed" > "$build/corpus.txt"
echo "tokenizer"
"$python" "$here/tokenizer.py" "$build/corpus.txt" "$build/vocabulary.json"
echo "training"
"$python" "$here/train.py" "$build/corpus.txt" "$build/vocabulary.json" \
    "$build/weights.npz" --seed "$seed" ${TOKENS:+--tokens "$TOKENS"}
echo "export"
"$python" "$here/export.py" "$build/vocabulary.json" "$build/weights.npz" \
    "$build/unroll-small.gguf"
echo "check"
"$python" "$here/check.py" "$build/unroll-small.gguf"
cp "$build/unroll-small.gguf" "$here/unroll-small.gguf"
