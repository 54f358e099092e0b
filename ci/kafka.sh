#!/bin/sh
# Runs one build of Apache Kafka for the gate, with policy kafka.toml beside this file:
#
#   KAFKA_VERSION=4.3.1                          a release
#   KAFKA_VERSION=4.4.0 KAFKA_REPOSITORY=URL     a release candidate, from its staging repository
#   KAFKA_HOME=build/kafka                       the unpacked folder of your build
#
# usage: kafka.sh [BACKEND]. On netns, which needs root or user namespaces, partitions as well; on local
# (the default) kills and pauses. What runs found, the gate says: they end with 0 unless they were not run.
set -eu

backend=${1:-local}
if [ -n "${KAFKA_HOME:-}" ]; then
    set -- --kafka-home "$KAFKA_HOME"
elif [ -n "${KAFKA_VERSION:-}" ]; then
    home=$(kraftprobe kafka fetch --quiet ${KAFKA_REPOSITORY:+--repository "$KAFKA_REPOSITORY"} "$KAFKA_VERSION")
    set -- --kafka-version "${home##*/}" # of a candidate not its version alone
else
    echo "kafka.sh: set KAFKA_VERSION or KAFKA_HOME" >&2
    exit 2
fi
if [ "$backend" = local ]; then
    set -- "$@" --faults kill,pause
fi
for seed in 7 8; do
    kraftprobe run --system apache-kafka --campaign quick --backend "$backend" --seed $seed "$@" || [ $? -ne 2 ]
done
kraftprobe run --campaign quick --mutant M15 || [ $? -eq 1 ] # the canary: a known bug that must be found
