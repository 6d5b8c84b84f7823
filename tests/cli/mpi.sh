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

"$MAKE" --context 2048 F32.gguf
"$MAKE" --context 2048 --type Q8_0 --family qwen3 Q8_0.gguf
"$MAKE" --context 2048 --type F16 --family gemma3 windows.gguf
"$MAKE" --context 2048 --type Q8_0 --family qwen2moe experts.gguf

begin "the bytes of one process: ranks, prompts, threads, batches, fresh and resumed, F32 and Q8_0"
ranks='1 2 3 4 5 8' lengths='1 2 5 63 64 65 257 1000' holds='1 40 64 130'
# N.tokens is a prompt of N tokens, N.M.tokens the same without its first M
python3 -S - "$TOP/tests/cli" "$lengths" "$holds" <<'PYTHON' || fail "no prompts"
import sys
sys.path.insert(0, sys.argv[1])
from stream import tokens
lengths, holds = ([int(x) for x in words.split()] for words in sys.argv[2:])
for n in lengths + holds + [1500]:
    ids = [(3 + 7 * i * i) % 300 for i in range(n)]
    for held in [0] + [h for h in holds if h < n]:
        with open(f"{n}.{held}.tokens" if held else f"{n}.tokens", "wb") as file:
            file.write(tokens(ids[held:], position=held))
PYTHON
stream more 'fork(0, 200, sequence=6)' 'tokens([4, 5], position=200, sequence=6)' 'end("dropped", sequence=6)' \
    'fork(0, 7, sequence=5)' 'end("dropped", sequence=5)' 'fork(0, 130, sequence=6)' 'tokens([4], position=130, sequence=6)' \
    'tokens([7, 8, 9], sequence=1)' 'fork(0, 100, stream=1, sequence=2)' \
    'tokens([i % 50 for i in range(90)], sequence=2, position=100)'
for type in F32 Q8_0; do
    for n in $lengths; do
        prefill -m $type.gguf --repack never $n.tokens >$type.$n
        for r in $ranks; do
            for t in 1 2; do
                echo "$r $t 512 last one $type.gguf $type.$n $n.tokens"
            done
            for held in $holds; do
                [ $held -lt $n ] || continue
                [ -f $type.$held.held ] || prefill -m $type.gguf --repack never $held.tokens >$type.$held.held
                echo "$r 1 512 last one $type.gguf $type.$n $type.$held.held $n.$held.tokens"
                echo "$r 2 100 last one $type.gguf $type.$n $type.$held.held $n.$held.tokens"
            done
        done
    done
    # a whole state; several sequences, forked and dropped; all logits; small batches; every rank writes
    cat $type.257 more >$type.several
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
# sliding windows, and a mixture of experts
for type in windows experts; do
    for n in 1 64 130; do
        prefill -m $type.gguf --repack never $n.tokens >$type.$n.held
    done
    for n in 65 257; do
        prefill -m $type.gguf --repack never $n.tokens >$type.$n
        for r in 2 3 8; do
            echo "$r 1 512 last one $type.gguf $type.$n $n.tokens"
            echo "$r 2 100 last one $type.gguf $type.$n $type.64.held $n.64.tokens"
        done
    done
    prefill -m $type.gguf --repack never --logits all 257.tokens >$type.all
    echo "3 1 64 all each $type.gguf $type.all 257.tokens"
    echo "5 1 9 last one $type.gguf $type.257 $type.130.held 257.130.tokens"
done >>list
mpirun -n 8 "$MATRIX" list >out 2>err || fail "status $? ($(brief err))"
[ "$(grep -c '^same' out)" -eq "$(wc -l <list)" ] || fail "$(grep -v '^same' out | head -n 3 | tr '\n' '|') ($(brief err))"
[ -z "$why" ] || finish

begin "mpirun prefill: standard input to standard output, -o, --parallel-write, --mpi"
mpirun -n 3 "$BIN/prefill" -m F32.gguf <257.tokens >out 2>err || fail "status $? ($(brief err))"
expect_same out F32.257
expect_no_error
cat F32.130.held 257.130.tokens | mpirun -n 2 "$BIN/prefill" -v -m F32.gguf -o written >out 2>err || fail "status $? ($(brief err))"
expect_same written F32.257
[ ! -s out ] || fail "-o wrote to standard output too"
grep -q '^prefill: rank 1 on .*: [0-9]* positions; compute .* bytes sent$' err || fail "-v: $(brief err)"
grep -q '^prefill: 2 ranks, .* parallel efficiency [0-9.]* %' err || fail "-v: $(brief err)"
# what examples/plan-prefill says of the traffic is what is sent
expect_status 0 mpirun -n 4 "$BIN/prefill" -v -m F32.gguf -o written 257.tokens
sent=$(sed -n 's/.* \([0-9]*\) bytes sent$/\1/p' err | awk '{ n += $1 } END { print n }')
"$TOP/examples/plan-prefill" --bytes --model 2,64,4,2,16,64,320 --positions 257 --ranks 4 >planned
[ "$sent" = "$(awk '{ print $2 + $3 }' planned)" ] || fail "$sent bytes sent, planned: $(brief planned)"
expect_status 0 mpirun -n 2 "$BIN/prefill" -m F32.gguf --reuse F32.130.held --parallel-write -o written 257.tokens
expect_same written F32.257
[ "$(ls written*)" = written ] || fail "left $(ls written*)"
expect_status 0 "$BIN/prefill" --mpi always -m F32.gguf -o written 65.tokens
expect_same written F32.65
expect_status 0 mpirun -n 2 "$BIN/prefill" --mpi never -m F32.gguf -o written 64.tokens
expect_same written F32.64
expect_status 0 env SLURM_NTASKS=4 "$BIN/prefill" -m F32.gguf 1.tokens
expect_same out F32.1
expect_status 2 "$BIN/prefill" -m F32.gguf --parallel-write -o written 1.tokens
expect_error 'several ranks'
expect_status 2 "$BIN/prefill" -m F32.gguf --parallel-write 1.tokens
expect_error 'needs -o FILE'
! ldd "$BIN/prefill" | grep -q libmpi || fail "prefill alone is linked to MPI"

# The one line that is ours; the rest is the launcher's.
expect_line() {
    grep '^prefill:' err >ours
    mv ours err
    expect_error "$1"
}
begin "an error on one rank ends all, with its status and one line"
expect_status 3 mpirun -n 2 "$BIN/prefill" -m F32.gguf 65.tokens : -n 1 "$BIN/prefill" -m none.gguf 65.tokens
expect_line '^prefill: rank 2 on .*: none.gguf: cannot open: No such file'
expect_status 1 mpirun -n 2 "$BIN/prefill" -m F32.gguf 65.tokens : -n 1 "$BIN/prefill" -m Q8_0.gguf 65.tokens
expect_line "^prefill: rank 2 on .* fingerprint [0-9a-f]{8} and .*, that of rank 0 .* [0-9a-f]{8} and "
head -c 100 65.tokens >cut
expect_status 1 mpirun -n 2 "$BIN/prefill" -m F32.gguf -o written cut
expect_line '^prefill: cut: record 1 '
expect_same written F32.64
expect_status 3 mpirun -n 2 "$BIN/prefill" -m F32.gguf -o /dev/full 65.tokens
expect_line '^prefill: /dev/full: cannot write: No space'
stream strange 'tokens([7] * 200 + [310, 99999])'
expect_status 1 mpirun -n 2 "$BIN/prefill" -m F32.gguf strange
expect_line '^prefill: rank [01] on .*: token 99999 at position 201'
begin "a rank that may use fewer CPUs than -t"
expect_status 0 mpirun -n 1 taskset -c 0 "$BIN/prefill" --mpi always -t 3 -m F32.gguf -o written 65.tokens
expect_error '3 threads, but this rank may use 1 CPU'

begin "a killed rank ends the job, as Ctrl-C does, and no state looks whole"
"$MAKE" --dim 512 --context 2048 slow.gguf
for moment in 1 2.5 4; do
    UNROLL_CPU=generic mpirun -n 3 "$BIN/prefill" -t 1 --repack never -m slow.gguf 1500.tokens >killed 2>err &
    launcher=$!
    sleep $moment
    victim=$(pgrep -P $launcher prefill | tail -n 1)
    [ -n "$victim" ] || fail "at $moment s there was no rank"
    since=$(date +%s)
    [ -z "$victim" ] || kill -KILL "$victim"
    wait $launcher && fail "status 0"
    [ $(($(date +%s) - since)) -le 10 ] || fail "it took more than 10 s"
    decode-step -m slow.gguf killed >/dev/null 2>&1 && fail "the state was taken for a whole one"
done
# Ctrl-C: a signal that shells ignore for what they start in the background
cat >interrupt <<'PYTHON'
import os, signal, subprocess, sys, time
with open("killed", "wb") as out:
    job = subprocess.Popen(sys.argv[1:], stdout=out, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(2.5)
    os.killpg(job.pid, signal.SIGINT)
    try:
        status = job.wait(timeout=10)
    except subprocess.TimeoutExpired:
        status = "not ended after 10 s"
print(status)
PYTHON
UNROLL_CPU=generic python3 interrupt mpirun -n 3 "$BIN/prefill" -t 1 --repack never -m slow.gguf 1500.tokens >out
[ "$(cat out)" != 0 ] && ! grep -q ended out || fail "Ctrl-C: status $(cat out)"
decode-step -m slow.gguf killed >/dev/null 2>&1 && fail "the state was taken for a whole one"

# ---- hosts: network namespaces with addresses of their own ---------------------------------------------

begin "separate hosts (network namespaces)"
net=unroll$$
close_hosts() {
    ip netns del $net-1
    ip netns del $net-2
    ip link del $net
}
open_hosts() {
    set -e
    ip link add $net type bridge
    ip addr add 10.213.7.254/24 dev $net
    ip link set $net up
    for h in 1 2; do
        ip netns add $net-$h
        ip link add $net-$h type veth peer name eth0 netns $net-$h
        ip link set $net-$h master $net up
        ip -n $net-$h addr add 10.213.7.$h/24 dev eth0
        ip -n $net-$h link set eth0 up
        ip -n $net-$h link set lo up
    done
}
trap 'close_hosts 2>/dev/null' EXIT
(open_hosts) 2>err
if [ $? -ne 0 ]; then
    skip "separate hosts" "no network namespaces here ($(brief err))"
    finish
fi
# The launcher's way to a host, in the place of ssh: 10.213.7.N is namespace N, with a host name and temporary files of its own.
cat >remote <<'REMOTE'
#!/bin/sh
host=host${1#10.213.7.} space=$UNROLL_TEST_NET-${1#10.213.7.}
shift
mkdir -p "$UNROLL_TEST_FOLDER/$host"
exec ip netns exec "$space" unshare --uts sh -c 'hostname "$1" && export TMPDIR="$2" && shift 2 && exec sh -c "$*"' sh \
    "$host" "$UNROLL_TEST_FOLDER/$host" "$@"
REMOTE
chmod +x remote
UNROLL_TEST_NET=$net UNROLL_TEST_FOLDER=$(mktemp -d)
export UNROLL_TEST_NET UNROLL_TEST_FOLDER
trap 'close_hosts 2>/dev/null; rm -rf "$UNROLL_TEST_FOLDER"' EXIT
timeout 60 mpirun -n 2 --host 10.213.7.1,10.213.7.2 --mca plm_rsh_agent "$PWD/remote" --mca plm_rsh_no_tree_spawn 1 \
    --mca btl tcp,self --mca btl_tcp_if_include 10.213.7.0/24 --mca oob_tcp_if_include 10.213.7.0/24 \
    "$BIN/prefill" -v -m "$PWD/F32.gguf" --repack never -o "$PWD/written" "$PWD/257.tokens" >out 2>err </dev/null ||
    fail "status $? ($(brief err))"
expect_same written F32.257
grep -q 'rank 0 on host1: ' err && grep -q 'rank 1 on host2: ' err || fail "not two hosts: $(brief err)"
finish
