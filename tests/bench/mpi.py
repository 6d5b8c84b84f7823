#!/usr/bin/env python3
"""mpi.py BIN [POSITIONS [ROUNDS]]: the parallel efficiency of prefill over two ranks of one thread on two CPUs.

In each round two single-rank prefills of the prompt run side by side, then two ranks work on it together, so that both
CPUs are as busy in both; then the same with chunks without the zigzag.  All outputs go to memory, and must be the same
bytes.  Twice the work in one time against once in the other: two ranks are perfect when they take half as long.
"""
import importlib.machinery, os, re, statistics, subprocess, sys, time

BIN = os.path.abspath(sys.argv[1])
POSITIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
WORK = os.path.join(os.path.dirname(BIN), "bench")
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else WORK
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from stream import tokens

os.makedirs(WORK, exist_ok=True)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                  OMPI_MCA_hwloc_base_binding_policy="none", XDG_CACHE_HOME=WORK)
MODEL = os.path.join(WORK, "llama-3.2-1b.Q8_0.gguf")
PROMPT = os.path.join(WORK, f"{POSITIONS}.tokens")
PREFILL = [os.path.join(BIN, "prefill"), "-v", "-t", "1", "-m", MODEL, PROMPT, "-o"]


def output(name):
    return os.path.join(MEMORY, f"unroll-bench-{os.getpid()}-{name}")


class Child:
    """A prefill; private memory at its highest, as it is seen from time to time."""

    def __init__(self, words, **environment):
        self.begin = time.monotonic()
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **environment))
        self.memory = 0

    def running(self):
        try:
            with open(f"/proc/{self.process.pid}/status") as status:
                for line in status:
                    if line.startswith("RssAnon"):
                        self.memory = max(self.memory, int(line.split()[1]) / 1000)
        except OSError:
            pass
        return self.process.poll() is None

    def end(self):
        text = self.process.stderr.read()
        if self.process.wait():
            sys.exit(text)
        return text


def together(children):
    while any([child.running() for child in children]):
        time.sleep(0.05)
    wall = time.monotonic() - children[0].begin
    return wall, [child.end() for child in children]


def alone():
    children = [Child(PREFILL + [output(name)]) for name in "ab"]
    wall, texts = together(children)
    inner = max(float(re.search(r"evaluated and written in ([0-9.]+) ms", text)[1]) / 1e3 for text in texts)
    return wall, inner, max(child.memory for child in children)


def ranks(n, **environment):
    wall, (text,) = together([Child(["mpirun", "-n", str(n)] + PREFILL + [output("m")], **environment)])
    inner = float(re.search(r"([0-9.]+) s from the first layer", text)[1])
    memory = max(float(x) for x in re.findall(r"([0-9.]+) MB private memory", text))
    if subprocess.run(["cmp", output("a"), output("m")]).returncode:
        sys.exit("the outputs differ")
    return wall, inner, memory, text


plan = importlib.machinery.SourceFileLoader("plan", os.path.join(HERE, "../../examples/plan-prefill")).load_module()
SHAPE = plan.Model(plan.MODELS["llama-3.2-1b"], 2)


def predict(n, positions=POSITIONS, flops=1, attention=1):
    return plan.predict(SHAPE, positions, n, flops, attention, 1, 0)


def bound(n):
    """MB that a rank may take: 1.1 times what the plan says of it, and 32."""
    return 1.1e-6 * predict(n)["memory"] + 32


def compute_of(text):
    return max(float(x) for x in re.findall(r"compute ([0-9.]+) s", text))


def check_plan():
    """What a rank computes in a second is taken from one rank, a short and a long prompt; then the plan for more."""
    short = POSITIONS // 8
    with open(PROMPT + ".short", "wb") as file:
        file.write(tokens([(3 + 7 * i * i) % 100000 for i in range(short)]))
    prefill = [word if word != PROMPT else PROMPT + ".short" for word in PREFILL] + [output("m"), "--mpi", "always"]
    times = []
    for words, positions in ((prefill, short), (PREFILL + [output("m"), "--mpi", "always"], POSITIONS)):
        _, (text,) = together([Child(["mpirun", "-n", "1"] + words)])
        _, matrices, attention, _, _ = plan.work(SHAPE, positions, 1)[0]
        times.append((matrices, attention, compute_of(text)))
    (m1, a1, t1), (m2, a2, t2) = times
    per_attention = (t2 * m1 - t1 * m2) / (a2 * m1 - a1 * m2)
    flops, attention = m1 / (t1 - a1 * per_attention), 1 / per_attention
    print(f"one rank: {flops:.3g} op/s in matrices, {attention:.3g} op/s in attention")
    for n in (2, 4):
        measured = compute_of(ranks(n)[3]) / (n / min(n, os.cpu_count()))
        print(f"{n} ranks: compute {measured:.1f} s a rank" + (" and CPU" if n > os.cpu_count() else "") +
              f", planned {predict(n, flops=flops, attention=attention)['compute']:.1f} s")


def main():
    if not os.path.exists(MODEL):
        subprocess.run([os.path.join(BIN, "../tests/make-model"), "--shape", "llama-3.2-1b", "--type", "Q8_0", MODEL], check=True)
    with open(PROMPT, "wb") as file:
        file.write(tokens([(3 + 7 * i * i) % 100000 for i in range(POSITIONS)]))
    rows = []
    try:
        for i in range(ROUNDS):
            side, inner, memory = alone()
            two, layers, two_memory, text = ranks(2)
            plain = ranks(2, UNROLL_MPI_PLAIN_CHUNKS="1")[1]
            rows.append((side, inner, memory, two, layers, two_memory, plain))
            print("round %d: side by side %.2f s (evaluated in %.2f s, %.0f MB each); two ranks %.2f s (layers %.2f s, %.0f MB); "
                  "plain chunks: layers %.2f s" % (i + 1, *rows[-1]), flush=True)
            print("\n".join(line for line in text.splitlines() if "rank" in line and "positions;" in line), flush=True)
        side, inner, memory, two, layers, two_memory, plain = (statistics.median(column) for column in zip(*rows))
        wall, core, flat = (statistics.median(x) for x in zip(*((r[0] / 2 / r[3], r[1] / 2 / r[4], r[1] / 2 / r[6]) for r in rows)))
        four = ranks(4)[2]
        print(f"{POSITIONS} positions, 2 ranks: efficiency {100 * wall:.1f} % of wall time, {100 * core:.1f} % to the last layer "
              f"({100 * flat:.1f} % without the zigzag)")
        print(f"private memory of a rank: 1 rank {memory:.0f} MB, 2 ranks {two_memory:.0f} MB ({100 * two_memory / memory:.0f} %, "
              f"bound {bound(2):.0f} MB), 4 ranks {four:.0f} MB (bound {bound(4):.0f} MB)")
        check_plan()
    finally:
        for name in "abm":
            if os.path.exists(output(name)):
                os.unlink(output(name))


main()
