// Package awslogs sends the lines of a container to a stream of CloudWatch Logs. It makes
// events of lines, keeps the limits of PutLogEvents, and tells what was acknowledged; the
// caller keeps the position, and calls Send again after an error. It keeps at most two
// requests in memory and starts nothing by itself.
package awslogs
