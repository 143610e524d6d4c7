#!/bin/bash
# Waits for the end of containers use the processor of the service all the time.
. "$(dirname "$0")/common.sh"
podman run -d --name "$name" --network none "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
serve
used() { awk '{ print $14 + $15 }' "/proc/$service/stat"; }
sleep 2
before=$(used); sleep 10; idle=$(($(used) - before))
waits=
for _ in $(seq 100); do call POST "/containers/$name/wait" >"$work/wait" & waits+=" $!"; done
sleep 2
before=$(used); sleep 10; busy=$(($(used) - before))
# shellcheck disable=SC2086 # a list of processes
kill $waits 2>/dev/null
per=$(awk -v t="$(getconf CLK_TCK)" -v n=$((busy - idle)) 'BEGIN { printf "%.1f", n / t * 10 }')
awk -v p="$per" 'BEGIN { exit !(p > 1) }' && seen "100 waits use $per % of a processor"
not_seen "100 waits use $per % of a processor"
