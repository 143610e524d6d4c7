// Package ecsplane is a control plane of ECS for tests: the calls of a container instance, and its two
// web sockets. It answers as ECS was recorded to answer, verifies each signature, keeps all that the
// instance said, and says what a test has it say.
package ecsplane
