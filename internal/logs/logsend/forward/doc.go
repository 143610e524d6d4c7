// Package forward sends the lines of a container to a fluentd or fluent-bit with the forward
// protocol, as records of Docker's driver. A batch carries an ID, and counts as delivered once
// the server has sent it back. The caller keeps the position and calls Send again after an
// error.
package forward
