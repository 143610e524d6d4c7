#!/bin/bash
# The first forced removal of a container whose conmon was killed fails.
. "$(dirname "$0")/common.sh"
podman run -d --name "$name" --network none "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
kill -9 "$(podman inspect --format '{{.State.ConmonPid}}' "$name")"
sleep 1
podman rm -f -t 0 "$name" >"$work/rm" 2>&1 || seen "$(tail -n 1 "$work/rm")"
not_seen "it was removed"
