// Package gelf sends the lines of a container in the Graylog Extended Log Format: over UDP,
// compressed and in chunks, or over TCP. The protocol has no acknowledgement: what the kernel
// took counts as delivered. The caller keeps the position and calls Send again after an error.
package gelf
