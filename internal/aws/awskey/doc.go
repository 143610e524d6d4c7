// Package awskey keeps the access key with which AWS clients of one user sign their
// requests: a file in the state directory that only the user can read, made when it is
// first needed. The agent reads it for each request; `podtask aws` prints and replaces it.
package awskey
