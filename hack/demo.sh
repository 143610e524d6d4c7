#!/bin/bash
# demo.sh shows podtask at work: a task of three containers on rootless Podman,
# with images from a registry that requires a password.
#
#   hack/demo.sh           the tour; it fails if a step fails
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
files=(hack/demo-steps examples/shop/*.json bin/podtask .bed/demo/demo-registry "${programs[@]/#/.bed/demo/}")

# The lock is not inherited: processes left by a killed demo must not hold it.
lock() {
	mkdir -p .bed/demo
	exec 9>.bed/demo/lock
	flock --nonblock 9 || die "another demo runs in this clone; wait for its end"
}

build() {
	say "building podtask and the programs of the images (a minute or two the first time)"
	hack/build
	CGO_ENABLED=0 hack/go build -buildvcs=false -trimpath -ldflags '-s -w' -o .bed/demo/ ./hack/demo-registry "${programs[@]/#/./examples/images/}"
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
tour | shell) ;;
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
hack/install.sh "${needs[@]}" 9>&-
hack/bed-plain start 9>&-
build 9>&-
hack/bed-plain put "${files[@]}"
say "ready after $SECONDS s"

status=0
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
fi
exit "$status"
