package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Failure is an error as a client gets it. Code is the name of an exception of AWS.
type Failure struct {
	Code    string
	Message string
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// The exceptions that more than one operation has.
const (
	CodeClient       = "ClientException"
	codeInvalid      = "InvalidParameterException"
	CodeServer       = "ServerException"
	CodeThrottling   = "ThrottlingException"
	CodeSyntax       = "SerializationException"
	CodeUnknown      = "UnknownOperationException"
	CodeUnsupported  = "UnsupportedFeatureException"
	CodeNoCluster    = "ClusterNotFoundException"
	CodeInvalidQuery = "InvalidAction"
	CodeNoResource   = "ResourceNotFoundException"
)

// Failf returns a Failure; format is that of fmt.
func Failf(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalidf returns an InvalidParameterException.
func Invalidf(format string, args ...any) *Failure { return Failf(codeInvalid, format, args...) }

// AsFailure converts any error. What is no Failure is a fault of this side: the client may
// try again.
func AsFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return Failf(CodeServer, "%v", err)
}

// Status returns the HTTP status of a failure. Clients repeat requests that are answered with
// 500 or more.
func (f *Failure) Status() int {
	if f.Code == CodeServer {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// Shortened bounds text of a client in a message.
func Shortened(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
