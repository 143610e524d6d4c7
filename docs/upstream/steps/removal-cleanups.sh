#!/bin/bash
# A forced removal of a pod starts a clean-up process for each container, which finds nothing to do.
. "$(dirname "$0")/common.sh"
podman pod create --name "$name" --network none >"$work/pod" || cannot "no pod"
for i in $(seq 10); do podman run -d --pod "$name" --name "$name-$i" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"; done
(while :; do pgrep -f 'container cleanup' >>"$work/pids"; done) &
watcher=$!
podman pod rm -f -t 0 "$name" >"$work/rm" 2>&1
sleep 1
kill "$watcher"
n=$(sort -u "$work/pids" | grep -c .)
[ "$n" -eq 0 ] || seen "at least $n clean-up processes for ten containers and the infra container"
not_seen "no clean-up process"
