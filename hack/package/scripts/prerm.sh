# remains says, for each user, what continues after the removal. It stops nothing.
remains() {
	processes=$(running all)
	containers=
	if [ "$package" = podtask ]; then containers=$(containers); fi
	[ -n "$processes$containers" ] || return 0
	echo "$package: a removal stops nothing. These continue:"
	for user in $(printf '%s\n%s\n' "$processes" "$containers" | cut -d ' ' -f 1 | sort -u); do
		what=
		for unit in $(echo "$processes" | grep "^$user [a-z]* [^-]" | cut -d ' ' -f 3 | uniq); do
			what="$what${what:+, }$unit"
		done
		others=$(echo "$processes" | grep -c "^$user [a-z]* -\$" || true)
		if [ "$others" != 0 ]; then what="$what${what:+, }$(count "$others" "other process" "other processes")"; fi
		n=$(echo "$containers" | grep -cxF "$user" || true)
		if [ "$n" != 0 ]; then what="$what${what:+, }$(count "$n" container containers)"; fi
		echo "  $user: $what"
	done
	if [ "$package" = podtask ]; then
		echo "Before a removal, each of these users stops them with:"
		echo "  podtask stop --all && systemctl --user disable --now podtask.socket podtask.service"
		echo "After it, only Podman can (podman ps --filter name=^podtask-), or podtask when it is installed again."
	else
		echo "Before a removal, that user stops it with: systemctl --user disable --now $package.service"
	fi
}

case ${1:-} in
remove | 0) # of dpkg, and of rpm
	if [ -z "${DPKG_ROOT:-}" ]; then (remains) || true; fi
	;;
esac
