#!/bin/bash
# A container cannot be started if it requires one that has ended, which requires one that runs.
. "$(dirname "$0")/common.sh"
podman run -d --name "$name-db" --network none "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
podman run --name "$name-init" --network none --requires "$name-db" "$IMAGE" true >"$work/init" 2>&1 || cannot "$(cat "$work/init")"
podman create --name "$name-app" --network none --requires "$name-init" "$IMAGE" sleep 3600 >"$work/app" || cannot "no container"
podman start "$name-app" >"$work/start" 2>&1 || seen "$(tail -n 1 "$work/start")"
not_seen "it was started; init is $(podman inspect --format '{{.State.Status}}' "$name-init")"
