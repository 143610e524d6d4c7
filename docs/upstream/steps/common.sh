# shellcheck shell=bash
# Functions of the steps. They need podman, curl, jq and an image with a shell: IMAGE, docker.io/library/busybox:1 by default.
# A script ends with 0 if the fault was not seen, 1 if it was, and 2 if it cannot tell.
set -u
IMAGE=${IMAGE:-docker.io/library/busybox:1}
work=$(mktemp -d)
name=steps-$$
sock=$work/podman.sock
service=

# serve starts a service of its own and waits until it answers.
serve() {
	podman system service --time 0 "unix://$sock" 2>>"$work/service.log" &
	service=$!
	for _ in $(seq 200); do
		curl -sf --unix-socket "$sock" http://d/_ping >"$work/ping" && return
		sleep 0.05
	done
	cannot "the service does not answer: $(tail -n 1 "$work/service.log")"
}

# call METHOD PATH [BODY] calls the REST API.
call() {
	curl -s --max-time 60 --unix-socket "$sock" -X "$1" -H 'Content-Type: application/json' ${3+-d "$3"} "http://d/v4.0.0/libpod$2"
}

# kill_service kills the service at once.
kill_service() {
	kill -9 "$service" 2>/dev/null
	wait "$service" 2>/dev/null
	rm -f "$sock"
}

# time_start OPTION... sets WITHIN, unless it is set, to the milliseconds that a start takes of a container with these options.
time_start() {
	local began
	podman create --name "$name-0" "$@" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
	serve
	began=$(date +%s%3N)
	call POST "/containers/$name-0/start" >"$work/start" 2>&1
	WITHIN=${WITHIN:-$(($(date +%s%3N) - began))}
	kill_service
	podman rm -f -t 0 "$name-0" >"$work/rm" 2>&1
}

# kill_in_start CONTAINER N ALL starts a container by a service of its own, which it kills N of ALL parts of WITHIN later. That is $ms.
kill_in_start() {
	serve
	ms=$(($2 * WITHIN / $3))
	call POST "/containers/$1/start" >"$work/start" 2>&1 &
	sleep "$(awk -v m="$ms" 'BEGIN { print m / 1000 }')"
	kill_service
	wait
}

# no_namespace says that it cannot tell if the network namespace of all rootless bridges exists: kills leave it, until the user has
# logged out everywhere.
no_namespace() {
	local file
	for file in "$(podman info --format '{{.Store.RunRoot}}')"/networks/rootless-netns/*.pid "${XDG_RUNTIME_DIR:-/nowhere}"/netns/rootless-netns-*; do
		[ ! -e "$file" ] || cannot "the namespace must not exist before: $file"
	done
}

cannot() { echo "cannot tell: $*"; exit 2; }
seen() { echo "seen: $*"; exit 1; }
not_seen() { echo "not seen: $*"; exit 0; }

clean() {
	[ -z "$service" ] || kill "$service" 2>/dev/null
	podman ps -aq --filter "name=$name" | xargs -r podman rm -f -t 0 --depend >"$work/clean" 2>&1
	podman pod rm -f -t 0 "$name" >>"$work/clean" 2>&1
	podman network rm -f "$name" >>"$work/clean" 2>&1
	rm -rf "$work"
}
trap clean EXIT
podman version --format '{{.Client.Version}}' | sed 's/^/podman /'
