# shellcheck shell=bash
# debian.sh is sourced by the beds that contain a Debian system: it unpacks one and
# turns it into a small server with a lingering user. It needs lib.sh.

# mirror prints the address of the Debian archive that apt is configured with.
mirror() {
	# shellcheck disable=SC2016 # the fields are apt's
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(CREATED_BY) $(REPO_URI)' |
		awk '$1 == "Debian" && $2 == "Debian" && $3 == "main" && $4 == "Packages" { print $5; exit }'
}

# apt_settings prints the proxies and certificates apt is configured with, as
# options for mmdebstrap.
apt_settings() {
	apt-config dump | sed -n 's/^\(Acquire::https\?::.*\)$/--aptopt=\1/p'
}

# bootstrap unpacks Debian's suite $2 with the packages $3... into the
# directory $1; the log is $1.log. Packages once fetched are kept in the bed,
# for its other Debians and for the next time.
bootstrap() {
	local dir=$1 suite=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg debs=$BED/debs archive settings include
	shift 2
	archive=$(mirror)
	[ -n "$archive" ] || cannot "apt knows no Debian archive (apt-get indextargets names none)"
	mapfile -t settings < <(apt_settings)
	local sources=("deb [signed-by=$keyring] $archive $suite main") from=$suite
	if [ "$suite" = experimental ]; then # Podman and what belongs to it; the rest is Debian testing
		from=testing
		sources=("deb [signed-by=$keyring] $archive $from main" "${sources[@]}")
		# shellcheck disable=SC2016 # likewise
		settings+=(--setup-hook='printf "Package: podman netavark aardvark-dns src:golang-github-containers-*\nPin: release a=experimental\nPin-Priority: 990\n" >"$1/etc/apt/preferences.d/experimental"')
	fi
	include=$(IFS=, && echo "$*")
	mkdir -p "$debs/$suite"
	# shellcheck disable=SC2016 # the hooks' shell knows the directory
	mmdebstrap --quiet --mode=root --variant=minbase --include="$include" \
		--aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='force-unsafe-io' "${settings[@]}" \
		--skip=download/empty --skip=essential/unlink \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives"' --setup-hook="sync-in $debs/$suite /var/cache/apt/archives" \
		--customize-hook="sync-out /var/cache/apt/archives $debs/$suite" \
		"$from" "$dir" "${sources[@]}" >"$dir.log" 2>&1 </dev/null || {
		tail -n 15 "$dir.log" >&2
		cannot "Debian's $suite cannot be built from $archive; the reason is above"
	}
}

# small_server turns the unpacked Debian in $1 into a server with the lingering
# user $2, whose id is $3, and with nothing running that the beds do not need.
small_server() {
	local etc=$1/etc user=$2 uid=$3
	chroot "$1" useradd --create-home --shell /bin/bash --uid "$uid" "$user"
	echo "$user:100000:65536" | tee "$etc/subuid" >"$etc/subgid"
	mkdir -p "$1/var/lib/systemd/linger" "$1/var/log/journal" "$1$SHARE"
	touch "$1/var/lib/systemd/linger/$user"
	echo podtask-bed >"$etc/hostname"
	printf '127.0.0.1 localhost podtask-bed\n::1 localhost\n' >"$etc/hosts"
	: >"$etc/resolv.conf"
	: >"$etc/fstab"
	printf '%s\n' "$BED_ID$BED_ID$BED_ID$BED_ID" >"$etc/machine-id"
	printf 'DPKG_ADMINDIR=%s\n' "$NO_DPKG" >"$etc/environment"
	mkdir -p "$etc/systemd/user.conf.d"
	printf '[Manager]\nDefaultEnvironment=DPKG_ADMINDIR=%s\n' "$NO_DPKG" >"$etc/systemd/user.conf.d/bed.conf"
	mask "$1" systemd-firstboot.service systemd-update-utmp.service systemd-hwdb-update.service ldconfig.service \
		systemd-journal-catalog-update.service sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount \
		console-getty.service getty.target apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
		e2scrub_all.timer fstrim.timer nftables.service podman-auto-update.timer
	rm -f "$etc/systemd/system/multi-user.target.wants/"podman* "$etc/systemd/user/default.target.wants/"podman* \
		"$etc/systemd/user/sockets.target.wants/"podman* "$etc/systemd/system/sockets.target.wants/"podman*
	# Rootless Quadlet units wait 90 s where nothing pulls this target in.
	mkdir -p "$etc/systemd/system/multi-user.target.wants"
	ln -sf /usr/lib/systemd/system/network-online.target "$etc/systemd/system/multi-user.target.wants/"
}

# mask makes the units $2... of the Debian in $1 impossible to start.
mask() {
	local dir=$1/etc/systemd/system unit
	shift
	for unit in "$@"; do ln -sf /dev/null "$dir/$unit"; done
}
