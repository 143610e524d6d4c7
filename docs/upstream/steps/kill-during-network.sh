#!/bin/bash
# The service is killed while it makes the network namespace of all rootless bridges. Afterwards containers start.
. "$(dirname "$0")/common.sh"
rounds=${ROUNDS:-20}
no_namespace
podman network create "$name" >"$work/net" || cannot "no network"
time_start --network "$name"
bad=0
for round in $(seq "$rounds"); do
	c=$name-$round
	podman create --name "$c" --network "$name" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
	kill_in_start "$c" "$round" "$rounds"
	podman rm -f -t 0 "$c" >"$work/rm" 2>&1
	if ! timeout 60 podman run --rm --network "$name" "$IMAGE" true >"$work/run" 2>&1; then
		bad=$((bad + 1))
		echo "round $round, killed after $ms ms: $(tail -n 1 "$work/run")"
	fi
done
[ "$bad" -eq 0 ] || seen "no bridge works after $bad of $rounds kills"
not_seen "$rounds kills"
