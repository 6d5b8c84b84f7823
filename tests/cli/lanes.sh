# Several sequences at once: each has the logits that it has alone; a thousand go through every form of the loop; and what
# has ended takes no memory.
. "$TOP/tests/cli/lib.sh"

# The logits in a stream, each beside those of a prefill of the tokens that its sequence has by then: check_logits FILE.
cat >check.py <<'EOF'
import struct, subprocess, sys
sys.path.insert(0, sys.argv[1])
import stream

def records(data):
    at = 0
    while at < len(data):
        sequence, position, count, length = struct.unpack_from("<3I4xQ", data, at + 8)
        yield data[at + 4], sequence, position, count, data[at + 64:at + 64 + length]
        at += 64 + length + -length % 64

texts, found, alone = {}, [], {}
for kind, sequence, position, count, payload in records(open(sys.argv[2], "rb").read()):
    text = texts.setdefault(sequence, [])
    if kind == stream.TOKENS:
        assert position <= len(text), (sequence, position, len(text))
        text[position:] = struct.unpack(f"<{count}I", payload)
    elif kind == stream.FORK:
        texts[sequence] = texts[struct.unpack_from("<I", payload)[0]][:position]
    elif kind == stream.LOGITS:
        found.append((tuple(text[:position + 1]), payload))
for text in set(text for text, _ in found):
    made = subprocess.run(["prefill"], input=stream.tokens(text), stdout=subprocess.PIPE, check=True).stdout
    alone[text] = [payload for kind, _, _, _, payload in records(made) if kind == stream.LOGITS][-1]
for text, payload in found:
    assert payload == alone[text], f"logits after {text}"
print(len(found))
EOF
check_logits() {
    python3 -S check.py "$TOP/tests/cli" "$1" >checked 2>why || fail "$(tail -1 why)"
    [ "$(cat checked)" -eq "$2" ] || fail "$(cat checked) logits, expected $2"
}

long=$(seq 30 | tr '\n' ' ')
printf 'A\nThe capital of France is\n%s\nOnce upon a time\n%s %s %s\n' "$long" "$long" "$long" "$long" >list
begin "by hand: lanes of different lengths, one and several tokens, each as alone"
tokenize --lines -f list | prefill >state
check_logits state 5
stream more 'tokens([257], position=APPEND, sequence=0)' 'tokens([257, 11, 382], position=APPEND, sequence=2)' \
    'tokens([303], position=APPEND, sequence=4)' 'fork(2, 7, sequence=9, stream=4)' 'tokens([400], position=APPEND, sequence=9)' \
    'fork(3, 2, sequence=3)' 'end("dropped", sequence=1)'
decode-step state more >next
check_logits next 5
prefill state more >all
expect_same next all
for t in 1 2; do
    decode-step -t $t state more >all
    expect_same next all
done
cat state more | decode-step --compress | prefill >all
expect_same next all

begin "in the loop: FORK in the middle, lanes that END, each as alone"
stream answers \
    'tokens([11], position=APPEND, sequence=0)' 'tokens([12], position=APPEND, sequence=1)' 'tokens([13], position=APPEND, sequence=2)' \
    'tokens([14], position=APPEND, sequence=3)' 'tokens([15], position=APPEND, sequence=4)' \
    'fork(4, 65, sequence=7, flags=OPEN)' 'tokens([21], position=65, sequence=7)' \
    'fork(4, 64, sequence=8, flags=OPEN)' 'tokens([22], position=64, sequence=8)' 'fork(2, 3, sequence=6)' \
    'fork(2, 20, sequence=2, flags=OPEN)' 'tokens([23, 24], position=20, sequence=2)' 'end("dropped", sequence=1)' \
    'tokens([25], position=APPEND, sequence=0)' 'end("eos", sequence=3)' 'tokens([26], position=APPEND, sequence=4)' \
    'fork(7, 66, sequence=1, flags=OPEN)' 'tokens([27], position=66, sequence=1)' 'end("length", sequence=7)' \
    'tokens([31], position=APPEND, sequence=0)' 'tokens([31], position=APPEND, sequence=2)' 'tokens([31], position=APPEND, sequence=4)' \
    'tokens([31], position=APPEND, sequence=6)' 'tokens([31], position=APPEND, sequence=8)' \
    'end("eos", sequence=0)' 'end("eos", sequence=1)' 'end("eos", sequence=2)' 'end("eos", sequence=4)' 'end("eos", sequence=6)' \
    'end("eos", sequence=8)'
decode-step --stream state answers >out
check_logits out 16
decode-step --stream --no-cache state answers >again
expect_same out again
decode-step --stream --save saved state answers >again
expect_same out again
check_logits saved 8
begin "the state that is saved is that of each sequence alone"
prefill saved >again
expect_same saved again

begin "a failure names the sequence"
tokenize --lines -f list >many
stream wrong 'tokens([5, 99999999], sequence=7)' 'tokens([6], position=APPEND, sequence=0)' 'tokens([6], position=APPEND, sequence=2)'
expect_status 1 decode-step many wrong
expect_error "sequence 7: token 99999999 at position 1"
expect_status 1 decode-step --stream many wrong
expect_error "sequence 7: token 99999999 at position 1"

begin "random streams of good records: an answer that can be read, or one line of message"
cat >random_streams.py <<'EOF'
import random, subprocess, sys
sys.path.insert(0, sys.argv[1])
import stream as S

random.seed(1)
sequences = [0, 1, 2, 0xffffffff, 0xfffffffe]
for n in range(60):
    records, end = [S.model(eog=[4], n_context=random.choice([3, 8, 20]))] * (n % 3 > 0), {}
    for _ in range(random.randrange(1, 40)):
        s, kind = random.choice(sequences), random.random()
        p = end.get(s, 0)
        if kind < .35:
            ids = [random.randrange(10) for _ in range(random.randrange(3))]
            flags = random.choice([0, S.OPEN, S.OPEN | S.GENERATED, S.OPEN | S.GENERATED | S.HELD])
            records.append(S.tokens(ids, position=random.choice([p, p, S.APPEND]), sequence=s, flags=flags))
            end[s] = p + len(ids)
        elif kind < .7:
            values = random.choice([[0.0] * 10, [random.uniform(-5, 5) for _ in range(10)], [float("-inf")] * 9 + [1.0]])
            records.append(S.logits(values, position=max(0, p - 1), sequence=s, flags=random.choice([S.OPEN, S.OPEN, 0])))
        elif kind < .85:
            source = random.choice(sequences)
            end[s] = random.randrange(end.get(source, 0) + 1)
            records.append(S.fork(source, end[s], sequence=s, stream=random.randrange(3), flags=random.choice([0, S.OPEN])))
        else:
            reason = random.choice(["eos", "dropped", "length"])
            records.append(S.end(reason, sequence=s, position=p))
            end[s] = 0 if reason == "dropped" else p
    with open("random", "wb") as file:
        file.write(b"".join(records))
    for command in (["beam", "--beam-width", str(random.choice([1, 2, 50])), "-n", str(random.choice([0, 1, 3]))],
                    ["beam", "-N", "3", "--stop", " a", "--early-stopping", "never"],
                    ["sample", "-N", "3", "--temp", "1", "-n", str(random.choice([0, 1, 3]))], ["detok", "-0"], ["detok", "--json"]):
        r = subprocess.run(command + ["random"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if r.returncode not in (0, 1) or r.stderr.count(b"\n") != r.returncode:
            sys.exit(f"stream {n}: {command}: status {r.returncode}, {r.stderr[:300]}")
        if command[0] != "detok" and r.stdout:
            shown = subprocess.run(["peek", "-"], input=r.stdout, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if shown.returncode not in (0, 1) or b"cut off inside" in shown.stderr:
                sys.exit(f"stream {n}: {command}: wrote what cannot be read: {shown.stderr[:300]}")
EOF
python3 -S random_streams.py "$TOP/tests/cli" 2>why || fail "$(brief why)"

# ---- a thousand ----------------------------------------------------------------------------------------
for i in $(seq 1000); do
    echo "There was a cat number $i. It"
done >thousand
begin "a thousand sequences in generate"
expect_status 0 timeout 300 generate --lines -f thousand -n 12 -0
mv out texts
[ "$(tr -dc '\0' <texts | wc -c)" -eq 1000 ] || fail "not a thousand texts"
for i in 1 317 1000; do
    generate -n 12 "There was a cat number $i. It" >alone
    tail -z -n +$i texts | head -z -n 1 | tr -d '\0' | cmp -s - alone || fail "line $i is not what it is alone"
done
timeout 300 generate --lines -f thousand -n 12 -0 --echo -v >echoed 2>err || fail "--echo: status $?"
grep -q '1000 sequences: .*finish reason: .*length' err || fail "said $(tail -3 err)"
tr '\0' '\n' <echoed | head -1000 | cut -c 1-20 | grep -vc '^There was a cat numb' | grep -q '^0$' || fail "not every prompt is there"
begin "a thousand sequences in the FIFO loop"
mkfifo back
timeout 300 sh -c '{ if tokenize --lines -f thousand | prefill; then cat back; else : <back; fi; } |
    decode-step --stream | sample -n 12 | tee back | detok -0' >out || fail "status $?"
expect_same out texts
begin "a thousand sequences where the state is an operand and the way back another"
tokenize --lines -f thousand | prefill >state
timeout 300 sh -c 'decode-step --stream state back | sample -n 12 | tee back | detok -0' >out || fail "status $?"
expect_same out texts
begin "a thousand continuations of one, and two of each of a thousand"
timeout 300 generate -N 1000 --temp 1.3 -n 12 -0 'Once upon a time' >out || fail "status $?"
[ "$(tr -dc '\0' <out | wc -c)" -eq 1000 ] || fail "not a thousand texts"
[ "$(tr '\0' '\n' <out | sort -u | wc -l)" -gt 500 ] || fail "not many different texts"
rm back && mkfifo back
timeout 300 sh -c 'decode-step --stream state back | sample -n 12 -N 2 --temp 1 | tee back | detok -0' >out || fail "status $?"
timeout 300 generate --lines -f thousand -N 2 --temp 1 -n 12 -0 >texts || fail "status $?"
expect_same out texts

# ---- memory ----------------------------------------------------------------------------------------------
begin "what has ended takes no memory: as much for four thousand short lives as for forty"
cat >lives.py <<'EOF'
import resource, subprocess, sys
sys.path.insert(0, sys.argv[1])
import stream
reason, fresh = sys.argv[2], sys.argv[3] == "fresh"

def peak(n):
    with open("lives", "wb") as file:
        file.write(stream.tokens([5] * 100))
        for i in range(1, n + 1):
            sequence = i if fresh else 1
            file.write(stream.fork(0, 100, sequence=sequence, flags=stream.OPEN))
            file.write(stream.tokens([i % 500], position=100, sequence=sequence))
            file.write(stream.fork(0, 100, flags=stream.OPEN)) # the first one answers too: now there is a pass
            file.write(stream.tokens([i % 400], position=100))
            file.write(stream.tokens([], position=101))
            file.write(stream.end(reason, sequence=sequence))
        file.write(stream.end("eos"))
    subprocess.run(["decode-step", "--stream", "lives"], stdout=subprocess.DEVNULL, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss

few = peak(40)
many = peak(4000)
sys.exit(0 if many - few < 16 << 10 else f"{few} kB for 40, {many} kB for 4000")
EOF
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1" # a sanitizer keeps what is freed
export ASAN_OPTIONS
for reason in dropped eos; do
    for ids in fresh reused; do
        [ "$reason $ids" != 'eos reused' ] || continue
        python3 -S lives.py "$TOP/tests/cli" $reason $ids 2>why || fail "$reason, $ids: $(brief why)"
    done
done
finish
