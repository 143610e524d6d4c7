// Package adjust reads what a run changes in a definition, in the words of podman run: ports to
// publish, secrets, network and limits. The command line, the API and services use the same
// words. It applies nothing: taskdef.Task.Adjust does.
package adjust
