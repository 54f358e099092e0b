#!/bin/sh
# The gate in a CI system: POLICY RUN... -> exit code of the gate.
# Writes gate-junit.xml here, or below $KRAFTPROBE_GATE_DIR. On GitHub it also appends
# to the job's summary and prints annotations, which is known by the variables that GitHub sets.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: gate.sh POLICY RUN..." >&2
    exit 2
fi
policy=$1
shift
out=${KRAFTPROBE_GATE_DIR:-.}
mkdir -p "$out"

if [ "${GITHUB_ACTIONS:-}" = true ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    set -- --github --summary "$GITHUB_STEP_SUMMARY" "$@"
fi
exec kraftprobe gate --policy "$policy" --junit "$out/gate-junit.xml" "$@"
