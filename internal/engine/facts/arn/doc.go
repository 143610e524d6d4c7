// Package arn makes the names that the things of a host have for AWS clients. The metadata
// endpoint, the labels of containers and the answers of internal/aws/awsapi say the same.
package arn
