# bash completion of podtask
_podtask() {
	local cur=${COMP_WORDS[COMP_CWORD]} attached= line words=()
	# bash takes = for a word of its own: --pull = o is --pull=o.
	words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
	if [ "$cur" = = ]; then
		cur='' attached=yes
	elif [ ${#words[@]} -gt 0 ] && [ "${words[-1]}" = = ]; then
		unset 'words[-1]'
		attached=yes
	fi
	if [ -n "$attached" ] && [ ${#words[@]} -gt 0 ]; then
		attached=${words[-1]}=
		cur=$attached$cur
		unset 'words[-1]'
	fi
	COMPREPLY=()
	while IFS= read -r line; do
		[[ $line != *= ]] || compopt -o nospace 2>/dev/null
		COMPREPLY+=("$(printf %q "${line#"$attached"}")")
	done < <("${COMP_WORDS[0]}" __complete -- "${words[@]}" "$cur" 2>/dev/null)
}
complete -o default -o bashdefault -F _podtask podtask
