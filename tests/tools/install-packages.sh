#!/bin/sh
# install-packages.sh PACKAGE...: installs the Debian packages that are missing when we may (as root, or by sudo
# without a password; never with DEPS=no); otherwise prints the one line that would, and fails.
missing=
for package; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
command -v dpkg-query >/dev/null || exit 0 # not Debian: the compiler will say what is missing
if [ "$(id -u)" = 0 ]; then as=; else as="sudo -n"; fi
if [ "$DEPS" = no ] || ! $as true 2>/dev/null; then
    echo "packages are missing; install them with: sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { DEBIAN_FRONTEND=noninteractive $as apt-get install -y --no-install-recommends $missing >"$log" 2>&1; }
install || { $as apt-get update >/dev/null 2>&1; install; } || { cat "$log" >&2; exit 1; }
