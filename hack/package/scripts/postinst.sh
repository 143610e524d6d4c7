# outdated says, for each user, what still runs the program of before an upgrade, and the command that
# restarts it. It restarts nothing.
outdated() {
	found=$(running replaced)
	[ -n "$found" ] || return 0
	echo "$package: an upgrade restarts nothing. These still run the program of before:"
	for user in $(echo "$found" | cut -d ' ' -f 1 | uniq); do
		of_user=$(echo "$found" | grep "^$user " | cut -d ' ' -f 2-)
		units=$(echo "$of_user" | grep '^user podtask\(-[a-z]*\)\{0,1\}\.service$' | cut -d ' ' -f 2 | uniq)
		tasks=$(echo "$of_user" | grep '^user [^-]' | cut -d ' ' -f 2 | uniq)
		for unit in $units; do
			tasks=$(echo "$tasks" | grep -vxF "$unit" || true)
			verb=restart
			if [ "$unit" = podtask-ingress.service ]; then verb=reload; fi
			echo "  $user: systemctl --user $verb $unit"
		done
		for unit in $tasks; do
			echo "  $user: systemctl --user restart $unit   (it restarts the task too; there is no hurry)"
		done
		for unit in $(echo "$of_user" | grep '^system [^-]' | cut -d ' ' -f 2 | uniq); do
			echo "  root: systemctl restart $unit   (it runs as $user)"
		done
		others=$(echo "$of_user" | grep -c ' -$' || true)
		if [ "$others" != 0 ]; then
			echo "  $user: $(count "$others" process processes) that run a task or a command each, and end with it"
		fi
	done
	echo "Containers continue meanwhile. 'podtask version' shows the version of your agent."
}

if [ -z "${DPKG_ROOT:-}" ]; then
	if [ -d /run/systemd/system ]; then
		systemctl --no-block reload 'user@*.service' || true
	fi
	(outdated) || true
fi
