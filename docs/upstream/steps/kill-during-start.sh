#!/bin/bash
# The service is killed during the start of a container. Afterwards the container starts, tells the exit code of its own
# process, has one address, and can be removed.
. "$(dirname "$0")/common.sh"
rounds=${ROUNDS:-60}
podman network create "$name" >"$work/net" || cannot "no network"
net=${NETWORK:-$name} # pasta is another that fails
# This one keeps the network namespace of the rootless bridges, which a kill may leave incomplete (kill-during-network.sh).
podman run -d --name "$name-keeper" --network "$name" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
time_start --network "$net"
declare -A faults
fault() { faults[$1]=$((${faults[$1]:-0} + 1)); echo "round $round, killed after $ms ms: $1: $2"; }
for round in $(seq "$rounds"); do
	c=$name-$round
	podman create --name "$c" --network "$net" "$IMAGE" sh -c 'trap "exit 7" TERM; while :; do sleep 0.1; done' >"$work/id" || cannot "no container"
	kill_in_start "$c" "$round" "$rounds"
	if ! timeout 60 podman start "$c" >"$work/start" 2>&1; then
		fault start "$(tail -n 1 "$work/start")"
	else
		n=$(podman exec "$c" ip -4 -o addr show dev eth0 2>/dev/null | grep -c inet)
		[ "$n" -le 1 ] || fault addresses "$n addresses on eth0"
		sleep 0.3
		timeout 60 podman stop -t 10 "$c" >"$work/stop" 2>&1
		code=$(timeout 60 podman wait "$c" 2>&1)
		[ "$code" = 7 ] || fault code "exit code $code, not 7"
	fi
	timeout 60 podman rm -f -t 0 "$c" >"$work/rm" 2>&1 || fault removal "$(tail -n 1 "$work/rm")"
done
[ ${#faults[@]} -eq 0 ] || seen "$(for k in "${!faults[@]}"; do printf '%s %s ' "${faults[$k]}" "$k"; done)of $rounds rounds"
not_seen "$rounds rounds"
