# bash completion of podtask
_podtask() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev= line words=()
	# bash takes = for a word of its own: --pull = o is --pull o.
	words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
	if [ "$cur" = = ]; then
		cur=
	elif [ ${#words[@]} -gt 0 ] && [ "${words[-1]}" = = ]; then
		unset 'words[-1]'
	fi
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$(printf %q "$line")")
	done < <("${COMP_WORDS[0]}" __complete -- "${words[@]}" "$cur" 2>/dev/null)
}
complete -o default -o bashdefault -F _podtask podtask
