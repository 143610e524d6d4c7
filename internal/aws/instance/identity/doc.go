// Package identity gets the AWS credentials of a host: from the environment, from a hybrid activation
// of Systems Manager, from the files of the AWS command line, or from a program that they name
// (credential_process). Credentials are in memory only, until shortly before they end.
package identity
