# fish completion of podtask
function __podtask_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	$words[1] __complete -- $words[2..-1] $current 2>/dev/null
end
complete -c podtask -a '(__podtask_complete)'
