#!/bin/bash
# The scope of a conmon that was killed stays in systemd as failed after the container is gone.
. "$(dirname "$0")/common.sh"
[ "$(podman info --format '{{.Host.CgroupManager}}')" = systemd ] || cannot "Podman does not use systemd for cgroups"
id=$(podman run -d --name "$name" --network none "$IMAGE" sleep 3600) || cannot "no container"
kill -9 "$(podman inspect --format '{{.State.ConmonPid}}' "$name")"
sleep 1
podman rm -f -t 0 "$name" >"$work/rm" 2>&1 || podman rm -f -t 0 "$name" >"$work/rm" 2>&1
systemctl --user list-units --all --no-legend --plain --state=failed "libpod-conmon-$id.scope" >"$work/units"
[ ! -s "$work/units" ] || seen "$(cat "$work/units")"
not_seen "no unit of the container is left"
