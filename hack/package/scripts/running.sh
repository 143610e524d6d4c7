# Users choose the paths of their programs and the names of their control groups: no control character of
# either is printed.

# running prints a line "USER SCOPE UNIT" for each process of this package's programs; SCOPE is user or
# system, and UNIT a dash for a process of no unit. With "replaced" it prints only those whose program is no
# longer the installed one.
running() {
	# shellcheck disable=SC2012 # one process for all links, instead of one for each
	LC_ALL=C ls -lq "$proc"/[0-9]*/exe 2>/dev/null |
		sed -n "s|^[^ ]* *[^ ]* *\([^ ]*\) .* $proc/\([0-9]*\)/exe -> \(/.*\)\$|\1 \2 \3|p" |
		while read -r user pid exe; do
			case $exe in
			*' (deleted)') exe=${exe%' (deleted)'} ;;
			*) [ "$1" != replaced ] || continue ;;
			esac
			exe=${exe%.dpkg-tmp}
			case " $programs " in
			*" $exe "*) ;;
			*) continue ;;
			esac
			group=$(sed -n 's/^[0-9]*:\(name=systemd\)\{0,1\}:\(.*[^/].*\)$/\2/p' "$proc/$pid/cgroup" 2>/dev/null | head -n 1)
			scope=system
			case $group in */user@*) scope=user ;; esac
			unit=${group##*/}
			case $unit in
			*[!A-Za-z0-9:_.@\\-]*) unit=- ;; # systemd makes no such names, but users can
			user@* | podtask-owner-*) unit=- ;; # of one task
			*.service) ;;
			*) unit=- ;;
			esac
			echo "$user $scope $unit"
		done | sort
}

# containers prints the user of each container of podtask that runs, by its monitor.
containers() {
	# shellcheck disable=SC2012 # as above
	LC_ALL=C ls -lq "$proc"/[0-9]*/exe 2>/dev/null |
		sed -n "s|^[^ ]* *[^ ]* *\([^ ]*\) .* $proc/\([0-9]*\)/exe -> /.*/conmon\( (deleted)\)*\$|\1 \2|p" |
		while read -r user pid; do
			if tr '\0' ' ' <"$proc/$pid/cmdline" 2>/dev/null | grep -q -e ' -n podtask-'; then echo "$user"; fi
		done | sort
}

# count prints a number with the right one of two words.
count() { if [ "$1" = 1 ]; then echo "1 $2"; else echo "$1 $3"; fi; }
