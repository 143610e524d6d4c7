#compdef podtask
_podtask() {
	local -a found
	found=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	found=(${found:#})
	if ((${#found})); then
		compadd -- $found
	else
		_files
	fi
}
if [ "$funcstack[1]" = _podtask ]; then
	_podtask "$@"
else
	compdef _podtask podtask
fi
