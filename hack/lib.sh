# shellcheck shell=bash
# lib.sh is sourced by the other scripts: paths and messages. It changes nothing on the
# machine.
#
# Every clone has its own beds. BED is a bed's directory, named by a hash of
# the clone's path and BED_NAME (default "test"), so that two clones, or a
# demo beside a test run, share no user, no path and no cgroup.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# A bare service environment may lack these; go and apt want them.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# say prints one line of progress to stderr; stdout is for data.
say() { echo "${0##*/}: $*" >&2; }

die() {
	say "$*"
	exit 1
}

# cannot exits because this machine or user cannot run the step. Status 3 distinguishes
# it from a failure: the test run reports a skip.
cannot() {
	say "$*"
	exit 3
}

is_root() { [ "$(id -u)" = 0 ]; }

# beds_home is the directory of beds: outside the clone, because a clone in a 0700
# directory is out of reach for the bed's user.
beds_home() {
	if is_root; then
		echo /var/lib/podtask-beds
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}/podtask-beds"
	fi
}

if [ -z "${BED:-}" ]; then
	BED_ID=$(printf '%s\n' "$ROOT" "${BED_NAME:-test}" | sha256sum | cut -c1-8)
	BED=$(beds_home)/$BED_ID
else
	BED_ID=${BED##*/}
fi
export BED

# SHARE is seen under the same path by the caller, by the plain bed and by
# the systemd bed. Programs and images are handed over in it.
# shellcheck disable=SC2034 # used by the scripts that source this file
SHARE=$BED/share

# NO_DPKG is an empty directory in place of the package database of the beds. Whenever a new
# service is asked about its host, Podman asks dpkg which package each of its programs belongs to,
# which took up to 15 % of the processor time while tests ran.
# shellcheck disable=SC2034 # likewise
NO_DPKG=/var/empty

# make_bed creates BED and records its clone, for hack/clean-beds.
make_bed() {
	mkdir -p "$BED" "$SHARE"
	chmod 755 "$(dirname "$BED")" "$BED" "$SHARE"
	printf '%s\n' "$ROOT" >"$BED/clone"
}

# put_files copies files into SHARE; a program in use is replaced, not
# overwritten.
put_files() {
	make_bed
	local f
	for f in "$@"; do
		cp "$f" "$SHARE/.new.$$"
		chmod 755 "$SHARE/.new.$$"
		mv -f "$SHARE/.new.$$" "$SHARE/${f##*/}"
	done
}

# pids_of_uids prints the processes whose real uid lies in one of the ranges
# given as FIRST:COUNT.
pids_of_uids() {
	local status uid range
	for status in /proc/[0-9]*/status; do
		uid=$(awk '/^Uid:/ { print $2 }' "$status" 2>/dev/null) || continue
		for range in "$@"; do
			if [ -n "$uid" ] && [ "$uid" -ge "${range%:*}" ] && [ "$uid" -lt $((${range%:*} + ${range#*:})) ]; then
				echo "$status" | cut -d/ -f3
			fi
		done
	done
}

# Build tags. The product talks to Podman's socket only and is static, and race builds need no headers of libbtrfs. The
# others leave out what libraries would link and no command uses: the documentation generator of urfave/cli, which would
# initialize in every command, a client of Docker's daemon, drivers of a storage that Podman's service opens, and pages of
# gRPC for a debugger (1.5 MB of each program).
# shellcheck disable=SC2034 # used by the scripts that source this file
TAGS="remote containers_image_openpgp urfave_cli_no_docs containers_image_docker_daemon_stub \
exclude_graphdriver_btrfs exclude_graphdriver_overlay exclude_graphdriver_zfs grpcnotrace"

# version prints the version of the clone: its tag, what git describe says after one, or
# without any tag a pseudo-version as Go makes them. VERSION overrides it; a source package has it in a file.
version() {
	local v
	if [ -n "${VERSION:-}" ]; then
		echo "$VERSION"
	elif [ -e "$ROOT/VERSION" ]; then
		cat "$ROOT/VERSION"
	elif v=$(git -C "$ROOT" describe --tags --match 'v[0-9]*' --dirty 2>/dev/null); then
		echo "$v"
	elif v=$(TZ=UTC git -C "$ROOT" log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=v0.0.0-%cd-%h 2>/dev/null); then
		[ -z "$(git -C "$ROOT" status --porcelain 2>/dev/null)" ] || v+=-dirty
		echo "$v"
	else
		echo v0.0.0-unknown
	fi
}
