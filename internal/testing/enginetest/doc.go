// Package enginetest contains an in-memory Podman and the conformance rules that it
// shares with the real one. The tests of internal/engine and internal/testing/enginesim use it.
//
// Fake implements Podman with containers that run scripts instead of programs, on
// a clock that belongs to the test: the same calls at the same times have the same
// results. It returns the same classes of errors as libpod.Client. Its calls fail on
// demand: before they have acted, after that, or for some time.
//
// Conformance checks an implementation against the rules that podtask relies on. It
// always runs with the Fake, and with real Podman in the test beds, which shows that
// the Fake behaves like Podman.
//
// The program of every container is that of test/e2e/testbox. The Fake implements the
// part of it described at the type process.
package enginetest
