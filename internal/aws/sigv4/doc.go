// Package sigv4 checks requests that are signed with AWS Signature Version 4: with the
// secret of one key, for any region and any service. internal/aws/awsapi calls it before it
// reads what a request asks for. It knows one algorithm and one way to carry a signature,
// the Authorization header: presigned URLs, unsigned payloads and streamed chunks are
// refused. It reads no clock and makes no signatures.
//
// The description is https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
package sigv4
