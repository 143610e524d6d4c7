package awsapi

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Failure is an error as a client gets it. Code is the name of an exception of AWS.
type Failure struct {
	Code    string
	Message string
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// The exceptions that more than one operation has.
const (
	codeClient       = "ClientException"
	codeInvalid      = "InvalidParameterException"
	codeServer       = "ServerException"
	codeThrottling   = "ThrottlingException"
	codeSyntax       = "SerializationException"
	codeUnknown      = "UnknownOperationException"
	codeUnsupported  = "UnsupportedFeatureException"
	codeNoCluster    = "ClusterNotFoundException"
	codeInvalidQuery = "InvalidAction"
)

// failf returns a Failure.
func failf(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// invalidf returns an InvalidParameterException.
func invalidf(format string, args ...any) *Failure { return failf(codeInvalid, format, args...) }

// asFailure converts any error. What is no Failure is a fault of this side: the client may
// try again.
func asFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return failf(codeServer, "%v", err)
}

// status is the HTTP status of a failure. Clients repeat requests that are answered with
// 500 or more.
func (f *Failure) status() int {
	if f.Code == codeServer {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// jsonProtocol is AWS' JSON protocol, of the given version.
type jsonProtocol struct{ version string }

func (p jsonProtocol) write(w http.ResponseWriter, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		p.fail(w, failf(codeServer, "the answer cannot be written: %v", err))
		return
	}
	p.send(w, http.StatusOK, body)
}

func (p jsonProtocol) fail(w http.ResponseWriter, f *Failure) {
	body, _ := json.Marshal(map[string]string{"__type": f.Code, "message": f.Message}) // strings never fail
	w.Header().Set("X-Amzn-Errortype", f.Code)
	p.send(w, f.status(), body)
}

func (p jsonProtocol) send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-"+p.version)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// formProtocol is AWS' query protocol: forms, answered with XML.
type formProtocol struct{ ec2 bool }

func (p formProtocol) write(w http.ResponseWriter, answer any) {
	body, err := xml.Marshal(answer)
	if err != nil {
		p.fail(w, failf(codeServer, "the answer cannot be written: %v", err))
		return
	}
	p.send(w, http.StatusOK, body)
}

// formError is an error of the query protocol.
type formError struct {
	Type    string `xml:",omitempty"`
	Code    string
	Message string
}

func (p formProtocol) fail(w http.ResponseWriter, f *Failure) {
	id := w.Header().Get(requestIDHeader)
	var answer any = struct {
		XMLName   xml.Name `xml:"ErrorResponse"`
		Error     formError
		RequestID string `xml:"RequestId"`
	}{Error: formError{"Sender", f.Code, f.Message}, RequestID: id}
	if p.ec2 {
		answer = struct {
			XMLName xml.Name    `xml:"Response"`
			Errors  []formError `xml:"Errors>Error"`
			ID      string      `xml:"RequestID"`
		}{Errors: []formError{{"", f.Code, f.Message}}, ID: id}
	}
	body, _ := xml.Marshal(answer) // of strings alone
	p.send(w, f.status(), body)
}

func (formProtocol) send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), body...)) // the client may have disconnected
}
