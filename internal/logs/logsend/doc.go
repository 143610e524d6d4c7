// Package logsend has what the senders of lines share: the lines that wait, and a connection
// that is made again after an error. The packages below it send to one kind of server each.
// internal/engine/act/logdelivery calls them. Nothing here keeps a position on disk.
package logsend
