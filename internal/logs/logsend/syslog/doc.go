// Package syslog sends the lines of a container to a syslog server, in the formats of Docker's
// driver, with the time of each line. The protocol has no acknowledgement: what the kernel took
// counts as delivered. The caller keeps the position and calls Send again after an error.
package syslog
