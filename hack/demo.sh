#!/bin/bash
# demo.sh shows podtask at work: a task of three containers on rootless Podman,
# with images from a registry that requires a password.
#
#   hack/demo.sh           the tour, with the core of podtask alone; it fails if a step fails
#   hack/demo.sh shell     an interactive shell in the same environment
#
# For root the demo creates its own user; for other users it has separate storage and
# settings. It removes everything at its end; if it is killed, the next demo does.
# Installed packages are kept.
set -euo pipefail
export BED_NAME=demo
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

programs=(client migrate server)
files=(hack/demo-steps examples/shop/*.json .bed/demo/bin/podtask .bed/demo/demo-registry "${programs[@]/#/.bed/demo/}")

# The lock is not inherited: processes left by a killed demo must not hold it.
lock() {
	mkdir -p .bed/demo
	exec 9>.bed/demo/lock
	flock --nonblock 9 || die "another demo runs in this clone; wait for its end"
}

# What the demo runs, and no other program.
ours=(./cmd/podtask ./cmd/podtask-netns)
theirs=(./hack/demo-registry "${programs[@]/#/./examples/images/}")

# took says how long something took that began at second $2, and notes it in times.
times=()
took() {
	times+=("$1 $((SECONDS - $2)) s")
	say "$1 took $((SECONDS - $2)) s"
}

download() {
	local begin=$SECONDS
	say "downloading the Go modules of podtask (once)"
	hack/go list -deps -tags "$TAGS $build_tags" "${ours[@]}" "${theirs[@]}" >/dev/null
	took "download" "$begin"
}

compile() {
	local begin=$SECONDS
	say "compiling podtask and the programs of the images (a minute or two the first time)"
	BUILD_TAGS=$build_tags hack/build .bed/demo/bin "${ours[@]}"
	CGO_ENABLED=0 hack/go build -buildvcs=false -ldflags '-s -w' -o .bed/demo/ "${theirs[@]}"
	took "compilation" "$begin"
}

clear_bed() {
	hack/bed-plain clean
	rm -rf "$BED"
}

# leave runs at every exit, so it must not be interrupted.
# shellcheck disable=SC2317 # trap calls it
leave() {
	trap '' INT TERM HUP
	if [ -n "$steps" ]; then
		disown -a
		kill -KILL -- "-$steps" || true
	fi
	if ! clear_bed 9>&-; then say "not all of the demo could be removed: run 'make clean-beds'"; fi
}

mode=${1:-tour}
case $mode in
tour) build_tags=podtask_core ;; # the tour needs no part, and waits for no compiler of one
shell) build_tags= ;;
*) die "usage: hack/demo.sh [tour|shell]" ;;
esac

steps= # the process group of the steps while they run
lock
clear_bed 9>&-
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
needs=(plain)
command -v go >/dev/null || needs+=(go)
began=$SECONDS
say "installing Debian packages that are missing, and making a user for the demo"
hack/install.sh "${needs[@]}" 9>&-
hack/bed-plain start 9>&-
took "preparation" "$began"
download 9>&-
compile 9>&-
hack/bed-plain put "${files[@]}"

status=0
began=$SECONDS
if [ "$mode" = shell ]; then
	hack/bed-plain run "$SHARE/demo-steps" shell 9>&- || status=$?
else
	# A job in the background does not keep this shell from answering a signal;
	# a group of its own keeps the steps apart from a Ctrl-C meant for the demo.
	set -m
	hack/bed-plain run "$SHARE/demo-steps" tour </dev/null 9>&- &
	set +m
	steps=$!
	wait "$steps" || status=$?
	steps=
	took "run" "$began"
	say "$(printf '%s, ' "${times[@]}")together $SECONDS s"
fi
exit "$status"
