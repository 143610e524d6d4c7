// Package logdriver knows the log drivers of task definitions: their names, their options with the
// rules of Docker and ECS, and the template of a tag. It is pure; internal/logs/logsend sends lines.
package logdriver
