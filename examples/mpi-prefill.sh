#!/bin/sh
# mpi-prefill.sh [RANKS [HOSTFILE]]: the prefill of one prompt on several ranks; the state is the one that a single
# process makes, byte for byte.
#
# Without a hostfile all ranks are on this machine.  With one ("node1 slots=1" and so on, a line for each host) the
# programs and the model must lie under the same names on all hosts.
# The programs are those of $BIN, else those that were built beside this script, else those of PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../build/bin}:$PATH
export PATH
ranks=${1:-3} hostfile=${2:-}
if ! command -v mpirun >/dev/null; then
    echo 'mpi-prefill.sh: there is no mpirun; install it with: sudo apt-get install openmpi-bin' >&2
    exit 3
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

# A text as long as the model's context allows: a story that the model makes up, and a beginning.
generate -n 300 --ignore-eos 'Once upon a time' >story
printf '\n\nOnce upon a time, a' >>story
tokenize -f story >tokens
echo "the prompt: $(tokenize --count -f story) positions"

# --bind-to none: the threads of a rank may use all CPUs of its host.  Ranks that wait let others run, where there are
# more ranks than CPUs.  Open MPI refuses to run as root unless it is told twice.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if [ -n "$hostfile" ]; then
    set -- --hostfile "$hostfile"
else
    set -- --oversubscribe --mca mpi_yield_when_idle 1
fi
mpirun -n "$ranks" --bind-to none "$@" "$(command -v prefill)" -v <tokens >together
prefill tokens >alone
cmp together alone
echo "$ranks ranks and one process: the same $(($(wc -c <alone) / 1024)) kB"
echo "what comes next: $(sample -n 1 together | detok)"
