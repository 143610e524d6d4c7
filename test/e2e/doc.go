// Package e2e holds the tests that need a real Podman: they run inside a test
// bed, as its user, and drive the podtask program as a user would.
//
// The bed gives the environment: PODTASK_BIN is the program's path,
// PODTASK_TESTBOX that of the program in the tests' images, PODTASK_AWSBOX that of
// one made of software for ECS, PODTASK_PLUGINBOX that of AWS' session-manager-plugin,
// PODTASK_BED the bed's name ("plain" or "systemd"), PODTASK_EXAMPLES the path of a copy
// of examples/.
//
// All tests share one registry, because the Podman service that the first of
// them starts serves all and reads registries.conf once. Each has repositories,
// a family and a state directory of its own, and proves at its end that nothing
// is left of it.
package e2e
