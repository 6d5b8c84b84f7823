#!/usr/bin/env python3
"""bench.py BIN [NAME ...]: a table of speeds, each beside what bounds it and beside another engine.

The machine is shared: every line is the median of three rounds in which all that is compared takes turns.  PEER names a
folder where the npm packages node-llama-cpp and tiktoken are installed (npm i node-llama-cpp tiktoken
--ignore-scripts); without them the column stays empty.  NAMEs choose lines: decode prefill avx512 lanes attention
start pipes restore tokenize masks.
"""
import glob, os, shutil, statistics, subprocess, sys, time

BIN = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(os.path.dirname(BIN), "bench")
PEER = os.environ.get("PEER")
MEASURE = os.path.join(os.path.dirname(BIN), "tests", "measure")
DRAW = os.path.join(os.path.dirname(BIN), "tests", "draw-texts")
MAKE = os.path.join(os.path.dirname(BIN), "tests", "make-model")
THREADS = os.environ.get("THREADS", "2")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
os.makedirs(WORK, exist_ok=True)
os.environ.setdefault("XDG_CACHE_HOME", WORK)


def run(*words, **environment):
    result = subprocess.run(words, stdout=subprocess.PIPE, env=dict(os.environ, **environment), check=True)
    return [float(word) for word in result.stdout.split()]


def measure(*words, **environment):
    return run(MEASURE, "-t", THREADS, *words, **environment)


def peer(model, prefill, decode, after=0, folder=PEER):
    if not folder:
        return [None, None]
    return run("node", os.path.join(HERE, "peer.mjs"), model, THREADS, str(prefill), str(decode), str(after), PEER=folder)


def peer_without_amx():
    """A copy of PEER (in hard links) that lacks the one build of its kernels that uses AMX."""
    copy = os.path.join(WORK, "peer-avx512")
    if PEER and not os.path.exists(copy):
        def skip(folder, names):
            return [n for n in names if n == "libggml-cpu-sapphirerapids.so" or n.startswith(("linux-x64-", "linux-arm"))]

        def link(source, target):
            try:
                os.link(source, target)
            except OSError: # another file system
                shutil.copy2(source, target)
        shutil.copytree(PEER, copy, symlinks=True, ignore=skip, copy_function=link)
    return copy if PEER else None


def rounds(*functions):
    """Medians of what the functions return, called in turn."""
    seen = [[f() for f in functions] for _ in range(ROUNDS)]
    return [[None if column[0] is None else statistics.median(column) for column in zip(*results)] for results in zip(*seen)]


def line(name, ours, unit, theirs=None, limit=None, limit_name=""):
    text = f"{name:44} {ours:9.1f} {unit:9}"
    text += f" peer {theirs:9.1f}  x{ours / theirs:5.2f}" if theirs else " " * 23
    if limit:
        text += f"  limit {limit:9.1f} {limit_name}: {100 * ours / limit:3.0f} %"
    print(text, flush=True)


def model(shape, kind):
    """A file with random weights, made once."""
    path = os.path.join(WORK, f"{shape}-{kind}.gguf")
    if not os.path.exists(path):
        base = os.path.join(WORK, f"{shape}-F16.gguf")
        if not os.path.exists(base):
            print("making", base, file=sys.stderr)
            subprocess.run([MAKE, "--shape", shape, "--type", "F16", base], check=True)
        if kind != "F16":
            print("making", path, file=sys.stderr)
            subprocess.run([os.path.join(BIN, "quantize"), "--type", kind, "-o", path, base], check=True)
    return path


def bytes_read(path):
    """Bytes of the tensors that a decode step reads: all but an embedding that is not the output too."""
    listing = subprocess.run([os.path.join(BIN, "peek"), path], stdout=subprocess.PIPE, check=True, text=True).stdout
    sizes = {}
    for row in listing.splitlines():
        words = row.split()
        if words and words[0].endswith(".weight"):
            sizes[words[0]] = int(words[-2])
    total = sum(sizes.values())
    return total - sizes["token_embd.weight"] if "output.weight" in sizes else total


KINDS = ["Q8_0", "Q4_0", "Q4_K_M"]


def bench_decode():
    for kind in KINDS:
        path = model("tinyllama-1.1b", kind)
        ours, theirs, bandwidth = rounds(lambda: measure("--decode", "48", path), lambda: peer(path, 16, 48)[1:],
                                         lambda: measure("--bandwidth"))
        line(f"decode {kind}", ours[0], "tokens/s", theirs[0], bandwidth[0] * 1e9 / bytes_read(path), "by bandwidth")
        print(f"    read bandwidth {bandwidth[0]:.1f} GB/s, {bytes_read(path) / 1e6:.0f} MB a token")


def bench_prefill():
    for kind in KINDS:
        path = model("tinyllama-1.1b", kind)
        ours, theirs = rounds(lambda: measure("--prefill", "512", path), lambda: peer(path, 512, 1)[:1])
        line(f"prefill 512 {kind}", ours[0], "tokens/s", theirs[0])


def bench_avx512():
    for kind in KINDS:
        path = model("tinyllama-1.1b", kind)
        ours, theirs, avx2 = rounds(lambda: measure("--prefill", "512", path, UNROLL_CPU="avx512"),
                                    lambda: peer(path, 512, 1, folder=peer_without_amx())[:1],
                                    lambda: measure("--prefill", "512", path, UNROLL_CPU="avx2"))
        line(f"prefill 512 {kind}, both AVX-512", ours[0], "tokens/s", theirs[0])
        line(f"prefill 512 {kind}, UNROLL_CPU=avx2", avx2[0], "tokens/s")


def bench_lanes():
    for kind in KINDS:
        path = model("tinyllama-1.1b", kind)
        one, eight = rounds(lambda: measure("--decode", "24", path), lambda: measure("--decode", "24", "--lanes", "8", path))
        line(f"8 rows at once {kind}", eight[0], "tokens/s", None, one[0] * 8, "8 times one row")
        print(f"    {eight[0] / one[0]:.2f} times the tokens/s of one row")


def bench_attention():
    path = model("llama-3.2-1b", "Q4_0")
    first, late, short, long = rounds(lambda: measure("--decode", "16", path),
                                      lambda: measure("--decode", "16", "--after", "4096", path),
                                      lambda: measure("--prefill", "512", path), lambda: measure("--prefill", "4096", path))
    line("decode at 4096 (llama-3.2-1b Q4_0)", late[0], "tokens/s", None, first[0], "at position 1")
    line("prefill of 4096", long[0], "tokens/s", None, short[0], "prefill of 512")
    if PEER:
        a, b = rounds(lambda: peer(path, 512, 16), lambda: peer(path, 4096, 16, 4096))
        print(f"    peer: decode at 4096 {100 * b[1] / a[1]:.0f} %, prefill of 4096 {100 * b[0] / a[0]:.0f} %")


def timed(*words):
    begin = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def bench_start():
    path = model("tinyllama-1.1b", "Q8_0")
    tokens = os.path.join(WORK, "one-token")
    with open(tokens, "wb") as file:
        subprocess.run([os.path.join(BIN, "tokenize"), "-m", path, "a"], stdout=file)
    program = os.path.join(BIN, "prefill")
    whole, = rounds(lambda: [1e3 * timed(program, "-m", path, "--ctx-size", "64", tokens)])
    one, = rounds(lambda: [1e3 / measure("--decode", "16", path)[0]])
    line("exec to first logits, 1.1B Q8_0, a word", whole[0], "ms")
    print(f"    of these {whole[0] - one[0]:.1f} ms more than a pass takes ({one[0]:.1f} ms)")


def bench_pipes():
    for shape, words in (("tinyllama-1.1b", "32k"), ("qwen2.5-0.5b", "152k")):
        path = model(shape, "Q8_0")
        n = 64
        generate = [os.path.join(BIN, "generate"), "-m", path, "-t", THREADS, "--ignore-eos"]

        def loop(): # the difference of two runs: starting is another line
            return [n / (timed(*generate, "-n", str(n + 8), "a") - timed(*generate, "-n", "8", "a"))]
        one, piped = rounds(lambda: measure("--loop", str(n), path), loop)
        line(f"generate, {words} vocabulary ({shape})", piped[0], "tokens/s", None, one[0], "one process")


def bench_restore():
    path = model("tinyllama-1.1b", "Q8_0")
    tokens, state = os.path.join(WORK, "tokens-1000"), os.path.join(WORK, "state-1000")
    prefill = os.path.join(BIN, "prefill")
    with open(tokens, "wb") as file:
        subprocess.run([os.path.join(BIN, "tokenize"), "-m", path, "a" * 999], stdout=file, check=True)
    made, again = rounds(lambda: [timed(prefill, "-m", path, "-o", state, tokens)],
                         lambda: [timed(prefill, "-m", path, "-o", state + "2", state)])
    line("restore of a 1000-position state and its copy", 1e3 * again[0], "ms", None, 1e3 * made[0], "its prefill")


def english():
    """A text of 8 MB: what is written here and the licences of the system, again and again."""
    top = os.path.dirname(os.path.dirname(HERE))
    names = glob.glob(top + "/*.md") + glob.glob(top + "/LICENSE") + glob.glob("/usr/share/common-licenses/*") + glob.glob("/usr/share/perl/*/pod/*.pod")
    parts = [open(name, "rb").read() for name in sorted(names) if os.path.isfile(name)]
    parts += [subprocess.run(["mandoc", "-Tascii", page], stdout=subprocess.PIPE).stdout.replace(b"\b", b"") for page in sorted(glob.glob(top + "/man/*/*"))]
    text = b"".join(parts)
    path = os.path.join(WORK, "english")
    with open(path, "wb") as file:
        file.write((text * (8_000_000 // len(text) + 1))[:8_000_000])
    return path, len(text)


def bench_tokenize():
    data = os.environ.get("UNROLL_TEST_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data")) + "/vocab"
    text, distinct = english()
    for name in ("llama-bpe", "qwen2", "gpt-2", "llama-spm"):
        path = f"{data}/{name}.gguf"
        if not os.path.exists(path):
            print(f"tokenize {name}: no {path}")
            continue
        theirs = {"gpt-2": "gpt2"}.get(name, "cl100k_base")
        node = ["node", os.path.join(HERE, "tiktoken.mjs"), text, theirs]
        have = PEER and os.path.exists(os.path.join(PEER, "node_modules", "tiktoken"))
        ours, other = rounds(lambda: measure("--tokenize", text, path), lambda: run(*node) if have else [None, None, None])
        line(f"tokenize English, {name}", ours[1], "MB/s", other[1])
        line(f"open the vocabulary, {name}", ours[0], "ms", other[0])
        if have:
            print(f"    peer: tiktoken {theirs}, {other[2]:.0f} tokens; ours {ours[2]:.0f}; one thread; {distinct / 1e3:.0f} kB of text, repeated")


def bench_masks():
    data = os.environ.get("UNROLL_TEST_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
    vocabulary = os.path.join(data, "vocab", "llama-bpe.gguf")
    if not os.path.exists(vocabulary):
        print("masks: no", vocabulary)
        return
    for name in ("film", "event", "person", "settings", "tree", "anything"):
        schema = os.path.join(HERE, "..", "schemas", name + ".json")
        (median, worst, n), = rounds(lambda: run(DRAW, "-m", vocabulary, "--json-schema-file", schema, "-n", "40", "--measure"))
        print(f"masks of 128k tokens, {name + '.json':22} {median:9.4f} ms median {worst:9.3f} ms worst, of {n:.0f}; limits 1 and 20 ms", flush=True)


BENCHES = {name[6:]: f for name, f in list(globals().items()) if name.startswith("bench_")}
print(subprocess.run(["sh", "-c", "uname -m; grep -m1 'model name' /proc/cpuinfo; nproc"], stdout=subprocess.PIPE, text=True).stdout.replace("\n", ", ").rstrip(", "), f"; {THREADS} threads; medians of {ROUNDS} rounds")
for name in sys.argv[2:] or BENCHES:
    BENCHES[name]()
