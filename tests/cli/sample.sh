. "$TOP/tests/cli/lib.sh"
sample=$BIN/sample

