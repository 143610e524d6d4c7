package protocol

import (
	"encoding/json"
	"encoding/xml"
	"mime"
	"net/http"
	"strconv"
)

// RequestIDHeader is the header with the ID of a request.
const RequestIDHeader = "X-Amzn-Requestid"

// Encoding writes answers and failures.
type Encoding interface {
	Write(http.ResponseWriter, any)
	Fail(http.ResponseWriter, *Failure)
}

// EncodingOf returns the Encoding in which a caller expects its answer; form: the request is a form of the query protocol. Service is
// that of the signature's scope.
func EncodingOf(r *http.Request, service string) (e Encoding, form bool) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/x-www-form-urlencoded":
		return formProtocol{ec2: service == "ec2"}, true
	case kind == "application/x-amz-json-1.0":
		return jsonProtocol{"1.0"}, false
	}
	return jsonProtocol{"1.1"}, false
}

// jsonProtocol is AWS' JSON protocol, of the given version.
type jsonProtocol struct{ version string }

func (p jsonProtocol) Write(w http.ResponseWriter, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		p.Fail(w, Failf(CodeServer, "the answer cannot be written: %v", err))
		return
	}
	p.send(w, http.StatusOK, body)
}

func (p jsonProtocol) Fail(w http.ResponseWriter, f *Failure) {
	body, _ := json.Marshal(map[string]string{"__type": f.Code, "message": f.Message}) // strings never fail
	w.Header().Set("X-Amzn-Errortype", f.Code)
	p.send(w, f.Status(), body)
}

func (p jsonProtocol) send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-"+p.version)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// formProtocol is AWS' query protocol: forms, answered with XML.
type formProtocol struct{ ec2 bool }

func (p formProtocol) Write(w http.ResponseWriter, answer any) {
	body, err := xml.Marshal(answer)
	if err != nil {
		p.Fail(w, Failf(CodeServer, "the answer cannot be written: %v", err))
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

func (p formProtocol) Fail(w http.ResponseWriter, f *Failure) {
	id := w.Header().Get(RequestIDHeader)
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
	p.send(w, f.Status(), body)
}

func (formProtocol) send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), body...)) // the client may have disconnected
}
