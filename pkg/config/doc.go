// Package config reads podtask's configuration: what a user would otherwise say on
// every command line.
//
// A key has one name in three spellings: stop-tasks in a file, PODTASK_STOP_TASKS in
// the environment, --stop-tasks on the command line. The command line wins over the
// environment, that over the user's files, those over the host's:
//
//	/etc/podtask/podtask.toml
//	/etc/podtask/podtask.toml.d/*.toml
//	$XDG_CONFIG_HOME/podtask/podtask.toml
//	$XDG_CONFIG_HOME/podtask/podtask.toml.d/*.toml
//
// Files that do not exist are none; drop-ins are read in the order of their names. All
// problems of all files and variables are reported at once.
//
// To add a key, add a field to Config and a row to keys. Nothing here is safe for
// concurrent use but Keys.
package config
