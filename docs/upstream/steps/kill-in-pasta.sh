#!/bin/bash
# podman start is killed by pasta, when that has set up the network namespace of all rootless bridges. Afterwards containers start.
# This needs pkill, and Podman 5 or newer.
. "$(dirname "$0")/common.sh"
no_namespace
pasta=$(command -v pasta) || cannot "no pasta"
mkdir "$work/bin"
cat >"$work/bin/pasta" <<END
#!/bin/sh
$pasta "\$@" || exit
test -e $work/killed || { touch $work/killed; pkill -KILL -f 'start $name\$'; }
END
chmod 755 "$work/bin/pasta"
podman network create "$name" >"$work/net" || cannot "no network"
podman create --name "$name" --network "$name" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
(CONTAINERS_HELPER_BINARY_DIR=$work/bin podman start "$name"; true) >"$work/start" 2>&1
[ -e "$work/killed" ] || cannot "nothing was killed: $(tail -n 1 "$work/start")"
for _ in 1 2; do
	timeout 60 podman run --rm --network "$name" "$IMAGE" true >"$work/run" 2>&1 || seen "$(tail -n 1 "$work/run")"
done
not_seen "two containers ran"
