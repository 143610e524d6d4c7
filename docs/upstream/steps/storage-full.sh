#!/bin/bash
# The file system of Podman's storage is full. A container can be stopped all the same. The storage is in a file system of 64 MB, which
# is mounted in podman unshare.
[ -n "${STEPS_INSIDE:-}" ] || STEPS_INSIDE=1 exec podman unshare bash "$0" "$@"
. "$(dirname "$0")/common.sh"
mkdir "$work/disk" "$work/run"
podman save "$IMAGE" -o "$work/image.tar" 2>"$work/save" || cannot "no image"
mount -t tmpfs -o size=64m none "$work/disk" || cannot "no tmpfs"
trap 'umount -l "$work/disk"; rm -rf "$work"' EXIT
own() { timeout 60 podman --root "$work/disk" --runroot "$work/run" --tmpdir "$work/run/tmp" "$@"; }
own load -q -i "$work/image.tar" >"$work/load" 2>&1 || cannot "$(tail -n 1 "$work/load")"
own run -d --name "$name" --network none "$IMAGE" sleep 3600 >"$work/id" 2>&1 || cannot "$(tail -n 1 "$work/id")"
dd if=/dev/zero of="$work/disk/fill" bs=64k 2>"$work/dd"
own stop -t 0 "$name" >"$work/stop" 2>&1 && stopped=yes || stopped=
rm "$work/disk/fill"
own rm -f -t 0 "$name" >"$work/rm" 2>&1 || seen "with space again it cannot be removed: $(tail -n 1 "$work/rm")"
[ -n "$stopped" ] || seen "$(tail -n 1 "$work/stop")"
not_seen "it was stopped"
