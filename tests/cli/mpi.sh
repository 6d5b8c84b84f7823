# prefill over ranks: the bytes of one process, whatever the ranks; errors; killed ranks.
. "$TOP/tests/cli/lib.sh"
MAKE=$BIN/../tests/make-model MATRIX=$BIN/../tests/mpi-matrix
if ! command -v mpirun >/dev/null || [ ! -x "$BIN/../libexec/unroll/prefill-mpi" ]; then
    skip "prefill over ranks" "there is no MPI"
    finish
fi

# As root, more ranks than CPUs, ranks that wait let others run; leaks of MPI itself are not ours.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none ASAN_OPTIONS=detect_leaks=0
unset PMIX_RANK OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS PMI_SIZE

# prompt FILE N SEED: N tokens of the made models.
prompt() {
    stream "$1" "tokens([($3 + 7 * i * i) % 300 for i in range($2)])"
}
# suffix FILE FROM N SEED: the tokens of that prompt after the first FROM.
suffix() {
    stream "$1" "tokens([($4 + 7 * i * i) % 300 for i in range($2, $3)], position=$2)"
}

"$MAKE" --context 2048 F32.gguf
"$MAKE" --context 2048 --type Q8_0 --family qwen3 Q8_0.gguf

begin "the bytes of one process: ranks, prompts, threads, batches, fresh and resumed, F32 and Q8_0"
ranks='1 2 3 5 8' lengths='1 2 5 63 64 65 257'
[ -z "${UNROLL_TEST_LONG:-}" ] || ranks='1 2 3 4 5 8' lengths="$lengths 1000"
for type in F32 Q8_0; do
    for n in $lengths; do
        prompt $n.tokens $n 3
        prefill -m $type.gguf --repack never $n.tokens >$type.$n
        for r in $ranks; do
            echo "$r 1 512 last one $type.gguf $type.$n $n.tokens"
            for held in 1 40 64 130; do
                [ $held -lt $n ] || continue
                [ -f $type.$held.held ] || { prompt held $held 3; prefill -m $type.gguf held >$type.$held.held; }
                suffix $n.$held.tokens $held $n 3
                echo "$r 2 100 last one $type.gguf $type.$n $type.$held.held $n.$held.tokens"
            done
        done
    done
    # a whole state and a state without its logits; several sequences, one forked; all logits; small batches; every rank writes
    python3 - $type.257 <<'PYTHON' >$type.cut
import sys
b, o, out = open(sys.argv[1], 'rb').read(), 0, []
while o < len(b):
    n = 64 + (int.from_bytes(b[o + 24:o + 32], 'little') + 63) // 64 * 64
    out.append(b[o:o + n])
    o += n
sys.stdout.buffer.write(b''.join(out[:-1]))
PYTHON
    stream none 'tokens([])'
    stream more 'tokens([7, 8, 9], sequence=1)' 'fork(0, 100, stream=1, sequence=2)' \
        'tokens([i % 50 for i in range(90)], sequence=2, position=100)'
    cat $type.257 more >several
    cp several $type.several
    prefill -m $type.gguf --repack never $type.several >$type.several.one
    prefill -m $type.gguf --repack never --logits all 257.tokens >$type.all
    prefill -m $type.gguf --repack never --logits all $type.40.held 257.40.tokens >$type.40.all
    for r in 2 3 8; do
        echo "$r 1 512 last one $type.gguf $type.257 $type.257"
        echo "$r 1 512 last each $type.gguf $type.257 257.tokens"
        echo "$r 1 512 last each $type.gguf $type.257 $type.130.held 257.130.tokens"
        echo "$r 1 9 last one $type.gguf $type.several.one $type.several"
        echo "$r 1 512 last each $type.gguf $type.several.one $type.several"
        echo "$r 1 512 all one $type.gguf $type.all 257.tokens"
        echo "$r 1 64 all each $type.gguf $type.40.all $type.40.held 257.40.tokens"
    done
done >list
mpirun -n 8 "$MATRIX" list >out 2>err || fail "status $? ($(brief err))"
[ "$(grep -c '^same' out)" -eq "$(wc -l <list)" ] || fail "$(grep -v '^same' out | head -n 3 | tr '\n' '|') ($(brief err))"
finish
