// Package logstest is a small CloudWatch Logs for tests: groups, streams and PutLogEvents with
// the documented limits, which it enforces. Tests make it fail as they like.
package logstest
