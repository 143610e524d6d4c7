// Package enginetest has a Podman in memory, and the rules that it shares with
// the real one.
//
// Fake is an agent.Podman whose containers run scripts instead of programs, on a
// clock that the test owns: the same calls at the same times have the same
// outcome. It answers as libpod.Client does, with the same classes of errors, and
// fails on demand: before a call acted, after it, or for a while.
//
// Conformance holds an engine to the rules podtask relies on. It runs on the Fake
// always, and on real Podman in the test beds, so that the Fake is no guess.
//
// Wherever a container runs, its program is that of test/e2e/testbox, or in the
// Fake what it knows of it: see process.
package enginetest
