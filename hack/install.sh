#!/bin/bash
# install.sh installs the missing packages that a step needs, and says so.
#
#   hack/install.sh GROUP...     groups: go race plain systemd vm lint release source recipes fuzzers arm64 registry prometheus podman4
#                                syslogs browser caddy awsclients awssdk busybox
#
# Debian packages come from wherever apt is configured to look; Go comes from
# the module proxy that GOPROXY names. Status 3: not possible for this user or
# on this machine, with one line that says what root has to install.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

as_root=()

# packages prints the Debian packages of a group.
packages() {
	case $1 in
	go) echo ca-certificates curl unzip ;;
	race) echo gcc libc6-dev ;;
	# podman alone would pull crun, which refuses hybrid cgroups.
	plain) echo podman runc uidmap slirp4netns catatonit netavark aardvark-dns ;;
	systemd) echo ca-certificates debian-archive-keyring mmdebstrap mount ;;
	vm) echo ca-certificates debian-archive-keyring e2fsprogs mmdebstrap mount ;;
	lint) echo shellcheck ;;
	release) echo dpkg-dev gpg gpg-agent xz-utils ;;
	source) echo debhelper dpkg-dev fakeroot xz-utils ;;
	recipes) echo fakeroot libarchive-tools makepkg nix-bin pacman-package-manager rpm ;;
	fuzzers) echo clang unzip zip ;;
	arm64) echo qemu-user-static ;;
	awsclients) echo awscli python3-boto3 ansible jq curl ;;
	caddy) echo caddy ;;
	browser) echo chromium fonts-dejavu-core ;;
	podman4) echo gcc libc6-dev libseccomp-dev libsystemd-dev pkg-config ;;
	*) die "no such group: $1 (go race plain systemd vm lint release source recipes fuzzers arm64 registry prometheus podman4 syslogs browser caddy awsclients awssdk busybox)" ;;
	esac
	case $1:$(. /etc/os-release && echo "${VERSION_ID:-}") in
	fuzzers:12) echo libclang-rt-14-dev libstdc++-12-dev ;;
	fuzzers:*) echo libclang-rt-19-dev libstdc++-14-dev ;;
	plain:12) echo iptables ;; # for netavark
	plain:*) echo passt nftables ;; # Podman 5's default network
	esac
}

# missing prints those of its arguments that dpkg does not call installed.
missing() {
	local p
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

# update_lists refreshes apt's lists. Failure is no error: one dead source
# must not stop the script, because the install that follows reports an error.
update_lists() {
	local out tries
	for tries in $(seq 60); do
		out=$("${as_root[@]}" apt-get -q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 update </dev/null 2>&1) && return 0
		# DPkg::Lock::Timeout does not cover the lock of the lists.
		[[ $out == *"Could not get lock"* ]] || return 0
		[ "$tries" = 1 ] && say "waiting for another apt"
		sleep 5
	done
}

install_packages() {
	local want=("$@")
	command -v apt-get >/dev/null || cannot "needs Debian's apt; install by hand: ${want[*]}"
	mapfile -t want < <(missing "${want[@]}")
	[ ${#want[@]} -gt 0 ] || return 0
	if ! is_root; then
		sudo -n true 2>/dev/null || cannot "root must install: apt-get install --no-install-recommends ${want[*]}"
		as_root=(sudo -n)
	fi
	say "installing ${want[*]}"
	update_lists
	local log
	log=$(mktemp)
	if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "${want[@]}" </dev/null >"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		cannot "apt-get cannot install ${want[*]}; the reason is above"
	fi
	rm -f "$log"
}

# unpack puts programs $2... of the Debian package $1 into the bed. The package is not
# installed: that would start its service on this machine.
unpack() {
	local package=$1 dir program
	shift
	[ ! -x "$BED/$1" ] || return 0
	command -v apt-get >/dev/null || cannot "needs Debian's apt to fetch $package"
	dir=$(mktemp -d)
	chmod 755 "$dir" # apt fetches as a user of its own
	say "fetching $package"
	if ! (cd "$dir" && { apt-get -qq download "$package" || { update_lists && apt-get -qq download "$package"; }; } &&
		dpkg-deb -x "$package"_*.deb .) >"$dir/log" 2>&1; then
		tail -n 5 "$dir/log" >&2
		rm -rf "$dir"
		cannot "apt-get cannot fetch $package; the reason is above"
	fi
	make_bed
	for program in "$@"; do # /bin is not everywhere /usr/bin
		install -m 755 "$(find "$dir" -type f -path "*/bin/$program" -print -quit)" "$BED"
	done
	rm -rf "$dir"
}

# unpack_all puts Debian packages $2..., and what they need and is not installed here, into
# directory $1 of the bed. They are not installed either.
unpack_all() {
	local into=$BED/$1 dir package
	shift
	[ ! -d "$into" ] || return 0
	command -v apt-get >/dev/null || cannot "needs Debian's apt to fetch $*"
	dir=$(mktemp -d)
	chmod 755 "$dir"
	say "fetching $*"
	update_lists
	for package in "$@"; do # one by one: some exclude each other
		if ! apt-get -q -y --no-install-recommends --reinstall --download-only -o Debug::NoLocking=1 -o Dir::Cache::archives="$dir" \
			-o Acquire::Retries=3 install "$package" </dev/null >"$dir/log" 2>&1; then
			tail -n 5 "$dir/log" >&2
			rm -rf "$dir"
			cannot "apt-get cannot fetch $package; the reason is above"
		fi
	done
	make_bed
	for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$dir/root"; done
	mv "$dir/root" "$into"
	rm -rf "$dir"
}

# build_podman builds program $1 from version $3 of the Podman that is Go module $2 into the bed.
build_podman() {
	local program=$1 module=$2 version=$3 dir=$BED/$1.module names
	[ ! -x "$BED/$program" ] || return 0
	names=$(packages "$program")
	read -ra names <<<"$names"
	install_packages "${names[@]}"
	make_bed
	mkdir -p "$dir"
	printf 'module %s\n\ngo 1.25\n\nrequire %s %s\n' "$program" "$module" "$version" >"$dir/go.mod"
	say "building Podman $version (once, about two minutes)"
	CGO_ENABLED=1 hack/go -C "$dir" build -mod=mod -trimpath -ldflags '-s -w' -o "$BED/$program" \
		-tags 'containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper seccomp systemd' "$module/cmd/podman" >"$dir/log" 2>&1 || {
		tail -n 5 "$dir/log" >&2
		cannot "Podman $version cannot be built; the reason is above"
	}
}

# install_awssdk puts AWS' SDK for JavaScript into the bed.
install_awssdk() {
	command -v npm >/dev/null || cannot "needs node and npm"
	local version=3.1164.0
	[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || version=3.726.1 # the last one for Node.js 18, which Debian 12 has
	[ "$(cat "$BED/awssdk/version" 2>/dev/null)" != "$version" ] || return 0
	make_bed
	say "fetching AWS' SDK for JavaScript"
	rm -rf "$BED/awssdk" "$BED/awssdk.new"
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$BED/awssdk.new" "@aws-sdk/client-ecs@$version" >/dev/null 2>&1 ||
		cannot "npm cannot fetch @aws-sdk/client-ecs"
	echo "$version" >"$BED/awssdk.new/version"
	mv "$BED/awssdk.new" "$BED/awssdk"
}

[ $# -gt 0 ] || die "usage: hack/install.sh GROUP..."
all=()
for group in "$@"; do
	case $group in
	registry) unpack docker-registry docker-registry && continue ;;
	busybox) unpack busybox-static busybox && unpack bash-static bash-static && continue ;;
	podman4) build_podman podman4 github.com/containers/podman/v4 v4.9.5 && continue ;; # as in Ubuntu 24.04
	awssdk) install_awssdk && continue ;;
	prometheus) unpack prometheus prometheus promtool && continue ;;
	syslogs) unpack_all syslogs rsyslog rsyslog-gnutls rsyslog-openssl syslog-ng-core && continue ;;
	esac
	# shellcheck disable=SC2178 # a function has an array of this name
	names=$(packages "$group")
	read -ra names <<<"${names//$'\n'/ }"
	all+=("${names[@]}")
done
install_packages "${all[@]}"
