// Package awsvalues reads from AWS what a definition names there: secrets of Secrets Manager,
// parameters of SSM and objects of S3. package secrets calls it for the source aws:. It
// keeps no value, reads nothing from the environment, and its errors contain no value.
//
// The AWS SDK for these services makes a program about a sixth larger, so it is in programs
// that are built with the tag aws. In others, Read returns ErrNotBuilt.
package awsvalues
