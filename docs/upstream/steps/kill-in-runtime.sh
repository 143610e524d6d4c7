#!/bin/bash
# podman start is killed by the OCI runtime, when that has created or started the container, and by conmon, before it does anything.
# Afterwards the container starts. This needs pkill, and does not depend on the speed of the machine.
. "$(dirname "$0")/common.sh"
runtime=$(podman info --format '{{.Host.OCIRuntime.Path}}')
conmon=$(podman info --format '{{.Host.Conmon.Path}}')
faults=0

# killer FILE PROGRAM WORD makes FILE a program that is PROGRAM and once, if WORD is an argument, kills podman: instead of conmon, and
# after the runtime.
killer() {
	local kill="test -e $work/killed || { touch $work/killed; pkill -KILL -f 'start $c\$'"
	case $2 in
	*conmon) printf '#!/bin/sh\ncase " $* " in *" %s "*) %s; exit 1; };; esac\nexec %s "$@"\n' "$3" "$kill" "$2" ;;
	*) printf '#!/bin/sh\n%s "$@" || exit\ncase " $* " in *" %s "*) %s; };; esac\n' "$2" "$3" "$kill" ;;
	esac >"$1"
	chmod 755 "$1"
	rm -f "$work/killed"
}

# try WHEN FLAG FILE kills one start of container $c and tries another.
try() {
	podman "$2" "$3" create --name "$c" --network "${NETWORK:-pasta}" "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
	(podman "$2" "$3" start "$c"; true) >"$work/start" 2>&1
	[ -e "$work/killed" ] || cannot "nothing was killed"
	if ! timeout 60 podman "$2" "$3" start "$c" >"$work/start" 2>&1; then
		faults=$((faults + 1))
		echo "killed $1: $(grep -m 1 -i 'error\|panic' "$work/start")"
	fi
	podman "$2" "$3" rm -f -t 0 "$c" >"$work/rm" 2>&1
}

for word in create start; do
	c=$name-$word
	killer "$work/runtime" "$runtime" "$word"
	try "after the runtime's $word" --runtime "$work/runtime"
done
c=$name-conmon
killer "$work/conmon" "$conmon" -c
try "before conmon" --conmon "$work/conmon"
[ "$faults" -eq 0 ] || seen "the next start failed after $faults of 3 kills"
not_seen "3 kills"
