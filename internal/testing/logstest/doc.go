// Package logstest has log servers for tests: a small CloudWatch Logs, with groups, streams and
// PutLogEvents within the documented limits, which tests make fail as they like; and a server of
// the forward protocol, as a log router is one.
package logstest
