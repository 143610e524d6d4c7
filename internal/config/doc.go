// Package config reads podtask's configuration from files, the environment and flags into
// typed Settings, once per process. The command line loads them and passes them down; no
// other package reads files or PODTASK_ variables of keys. It never acts on a value.
//
// A key has one name in three spellings: stop-tasks in a file, PODTASK_STOP_TASKS in
// the environment, --stop-tasks on the command line. The command line overrides the
// environment, which overrides the user's files, which override the host's:
//
//	/etc/podtask/podtask.toml
//	/etc/podtask/podtask.toml.d/*.toml
//	$XDG_CONFIG_HOME/podtask/podtask.toml
//	$XDG_CONFIG_HOME/podtask/podtask.toml.d/*.toml
//
// Missing files are ignored; drop-ins are read in the order of their names. All problems
// of all files and variables are reported together.
//
// To add a key, add a field to a group of Settings and a row to keys.
package config
