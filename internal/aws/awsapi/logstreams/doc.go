// Package logstreams answers the operations of CloudWatch Logs. The streams of tasks are their own logs; groups, and streams that
// clients write, are records.
package logstreams
