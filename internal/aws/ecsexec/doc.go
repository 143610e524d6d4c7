// Package ecsexec has the sessions of `aws ecs execute-command`: a program in a container
// whose terminal is at the other end of a web socket. A session is opened for a command; the
// program starts when a client has connected with the session's token, and ends when it
// ends by itself, when the session is terminated, or when its client has been away for a
// minute. A session may forward a port of a container instead. internal/aws/datachannel decides what is said on the connection, internal/aws/awsapi
// answers the requests that open sessions, internal/connect starts the programs.
package ecsexec
