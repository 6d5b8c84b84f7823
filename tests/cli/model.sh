# The small model: what issue it was trained for.  Capitals by greedy selection, and stories that end.
. "$TOP/tests/cli/lib.sh"
python3 "$TOP/examples/model/corpus.py" --countries >countries
python3 "$TOP/examples/model/corpus.py" --words >words

begin "the capital of France is Paris: five prompt tokens, three selections, eos"
expect_status 0 generate -v 'The capital of France is'
expect_bytes ' Paris.'
grep -q '5 prompt tokens, 3 selected, finish reason: eos' err || fail "$(brief err)"

begin "greedy answers are right for at least 48 of 50 countries"
right=0 asked=0
while IFS="$(printf '\t')" read -r country capital; do
    [ $asked -lt 50 ] || break
    asked=$((asked + 1))
    answer=$(generate "The capital of $country is")
    if [ "$answer" = " $capital." ]; then right=$((right + 1)); else echo "# $country: '$answer'"; fi
done <countries
echo "# $right of $asked capitals"
[ $asked -eq 50 ] && [ $right -ge 48 ] || fail "$right of $asked"

begin "at least 90 of 100 sampled stories end by themselves inside 300 tokens and are made of the corpus's words"
python3 - words <<'EOF' >log 2>&1 || fail "$(brief log)"
import re, subprocess, sys
words, good = set(open(sys.argv[1]).read().split()), 0
for seed in range(100):
    r = subprocess.run(['generate', '-v', '-n', '300', '--temp', '0.8', '--top-p', '0.9', '-s', str(seed), 'Once upon a time'],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = 'Once upon a time' + r.stdout.decode()
    ended = b'finish reason: eos' in r.stderr
    odd = [w for w in re.findall(r"[A-Za-z0-9]+", text) if w not in words]
    good += r.returncode == 0 and ended and not odd
    if not ended or odd:
        print(seed, 'ended' if ended else 'did not end', odd[:3])
print(good, 'of 100 stories')
sys.exit(good < 90)
EOF
sed 's/^/# /' log
finish
