#!/bin/sh
# sh compressor.sh FILTER OPTIONS: compresses telemetry.bin with these options of xz and prints what the archive costs,
# its size in bytes plus a 64th of the memory that is needed to read it. To adapt it, call your own program here and
# print its value as the last line; an exit code other than 0 is a failed trial.
set -eu
cd "$(dirname "$0")"
[ -f telemetry.bin ] || python telemetry.py    # the same bytes on every machine
shift    # the name of the filter: its option, --delta=…, follows if there is one
unset XZ_DEFAULTS XZ_OPT
archive=$(mktemp)
trap 'rm -f "$archive"' EXIT
xz --threads=1 --stdout "$@" telemetry.bin > "$archive"
memory=$(xz --robot --list --verbose --verbose "$archive" | awk '$1 == "summary" { print $2 }')
echo $(($(wc -c < "$archive") + memory / 64))
